use audit::{AuditError, Check};
use event_log::EventLogError;
use message_store::StoreError;
use projection::{ReplayError, SinkError};
use schemas::Partition;
use unread_store::UnreadError;

/// Why a rebuild did not come to its end. Unless it says otherwise, what it has built so far is kept, and the next one goes on
/// from there; the live data are as they were.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// Somebody else is at it.
    #[error("another rebuild of {what} is running")]
    Busy {
        /// Of what.
        what: &'static str,
    },
    /// The log does not begin at its beginning.
    #[error(
        "partition {partition} of {topic} begins at offset {start}: what came before is in no log, so nothing can be \
         built from it. Restore the table from a backup together with its row of resume_offset; the projection \
         reads on from there"
    )]
    Beheaded {
        /// Of which topic.
        topic: String,
        /// In which partition.
        partition: Partition,
        /// Where it begins.
        start: i64,
    },
    /// The log ends before where a table was.
    #[error(
        "partition {partition} of {topic} ends at offset {end}, and the live table was at {live}: the log went back. \
         Nothing is replaced by less than there is"
    )]
    LogWentBack {
        /// Of which topic.
        topic: String,
        /// In which partition.
        partition: Partition,
        /// Where it ends.
        end: i64,
        /// Where the live table stood.
        live: i64,
    },
    /// What was built is not what the log says. It was dropped.
    #[error("what was built is not what the log says, and was dropped; the live data are as they were. {}", told(.0))]
    Wrong(Vec<Check>),
    /// The rows that counts are made from are not what the log says.
    #[error("the contacts in MySQL are not what the log says (`tidemark rebuild contacts` mends that): {}", told(std::slice::from_ref(.0)))]
    Contacts(Check),
    /// The moment for the switch did not come.
    #[error(
        "it is built and right, but could not be switched in: {0}. The next run goes on from here"
    )]
    NotSwitched(String),
    /// The log cannot be read.
    #[error(transparent)]
    Kafka(#[from] EventLogError),
    /// MySQL cannot do it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The comparison cannot be made.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The counts cannot be made.
    #[error(transparent)]
    Unread(#[from] unread_rebuild::UnreadRebuildError),
    /// Redis cannot do it.
    #[error(transparent)]
    Redis(#[from] UnreadError),
    /// The shadow tables cannot be written.
    #[error("writing: {0}")]
    Sink(#[from] SinkError),
}

fn told(checks: &[Check]) -> String {
    let findings = checks.iter().flat_map(|check| &check.examples);
    let findings: Vec<String> = findings.map(ToString::to_string).collect();
    findings.join("; ")
}

impl From<ReplayError> for RebuildError {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Kafka(fault) => fault.into(),
            ReplayError::Sink(error) => error.into(),
        }
    }
}

impl RebuildError {
    /// Whether the same may go well soon.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Store(error) | Self::Audit(AuditError::MySql(error)) => error.is_transient(),
            Self::Sink(SinkError::Transient(_)) => true,
            _ => false,
        }
    }
}
