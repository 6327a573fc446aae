use event_log::EventLogError;
use message_store::StoreError;
use unread_store::UnreadError;

/// Why a rebuild failed. The variants hold text, since one error goes to all waiters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnreadRebuildError {
    /// The contact rows did not reach the end of the log in time, or another process holds the lease for too long. Retry later.
    #[error("the contact rows did not reach the end of the log in time")]
    TimedOut,
    /// The ordinal of one of the user's read positions is being looked up (PROTOCOL R5). Retry later.
    #[error(
        "the ordinal of a read position is being looked up: the messages of its conversation are out of reach, or not stored yet"
    )]
    UnresolvedRead,
    /// A store or the log does not respond. Retry later.
    #[error("{0}")]
    Transient(String),
    /// A retry will not help.
    #[error("{0}")]
    Fatal(String),
}

impl From<EventLogError> for UnreadRebuildError {
    fn from(fault: EventLogError) -> Self {
        Self::Transient(fault.to_string())
    }
}

impl From<StoreError> for UnreadRebuildError {
    fn from(error: StoreError) -> Self {
        if error.is_transient() {
            Self::Transient(error.to_string())
        } else {
            Self::Fatal(error.to_string())
        }
    }
}

impl From<UnreadError> for UnreadRebuildError {
    fn from(error: UnreadError) -> Self {
        match error {
            UnreadError::Transient(_) | UnreadError::Broken | UnreadError::NotReady => {
                Self::Transient(error.to_string())
            }
            UnreadError::PositionsMoved
            | UnreadError::Malformed { .. }
            | UnreadError::Url(_)
            | UnreadError::Tls(_) => Self::Fatal(error.to_string()),
        }
    }
}
