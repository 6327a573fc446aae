use schemas::Change;

/// How a message is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum MessageState {
    #[default]
    Shown,
    Recalled,
    Deleted,
}

impl MessageState {
    /// The text of a message after a change, and how it is shown; `None` if the change leaves the text alone.
    pub(crate) fn after(change: &Change) -> Option<(&str, Self)> {
        match change {
            Change::Recall => Some(("", Self::Recalled)),
            Change::Delete => Some(("", Self::Deleted)),
            Change::Edit(msg) => Some((msg, Self::Shown)),
            _ => None,
        }
    }
}

impl From<message_store::MessageState> for MessageState {
    fn from(stored: message_store::MessageState) -> Self {
        match stored {
            message_store::MessageState::Shown => Self::Shown,
            message_store::MessageState::Recalled => Self::Recalled,
            message_store::MessageState::Deleted => Self::Deleted,
        }
    }
}
