//! Numbers of messages on the command line.

use std::str::FromStr;

use schemas::Mid;

use crate::failure::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadMid {
    Latest,
    Mid(i64),
}

impl ReadMid {
    /// `None` for the latest.
    ///
    /// # Errors
    /// It is no number of a message.
    pub(crate) fn up_to(self) -> anyhow::Result<Option<Mid>> {
        match self {
            Self::Latest => Ok(None),
            Self::Mid(mid) => message_number(mid).map(Some),
        }
    }
}

impl FromStr for ReadMid {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "latest" => Ok(Self::Latest),
            _ => text
                .parse()
                .map(Self::Mid)
                .map_err(|_| "must be a mid or `latest`".to_owned()),
        }
    }
}

/// The number of a message on the command line.
pub(crate) fn message_number(number: i64) -> anyhow::Result<Mid> {
    let mid = Mid::try_from(number);
    mid.map_err(|wrong| Failure::Usage(format!("mid {wrong}")).into())
}
