//! What the word filter did with a text.

use crate::{malformed::Malformed, proto};

/// What the word filter did with a text that has words of its dictionary. The verdict travels with the record, so that a replay does not depend on
/// the dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordVerdict {
    /// Words were replaced by asterisks; otherwise the text is unchanged and only marked.
    pub masked: bool,
    /// The version of the dictionary.
    pub dictionary: u64,
}

impl TryFrom<proto::WordVerdict> for WordVerdict {
    type Error = Malformed;

    fn try_from(verdict: proto::WordVerdict) -> Result<Self, Malformed> {
        let masked = match proto::WordAction::try_from(verdict.action) {
            Ok(proto::WordAction::Flagged) => false,
            Ok(proto::WordAction::Masked) => true,
            Ok(proto::WordAction::Unspecified) | Err(_) => {
                let wrong = format!("is {}; must be 1 (flagged) or 2 (masked)", verdict.action);
                return Err(Malformed::new("words.action", wrong));
            }
        };
        Ok(Self {
            masked,
            dictionary: verdict.dictionary,
        })
    }
}

impl From<WordVerdict> for proto::WordVerdict {
    fn from(verdict: WordVerdict) -> Self {
        let action = if verdict.masked {
            proto::WordAction::Masked
        } else {
            proto::WordAction::Flagged
        };
        Self {
            action: action.into(),
            dictionary: verdict.dictionary,
        }
    }
}
