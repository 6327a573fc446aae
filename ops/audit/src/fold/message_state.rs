/// How a message is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum MessageState {
    #[default]
    Shown,
    Recalled,
    Deleted,
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
