use audit::{AuditError, Check};
use event_log::EventLogError;
use message_store::StoreError;
use projection::{ReplayError, SinkError};
use schemas::{Partition, event::UnknownRules};
use unread_store::UnreadError;

/// Why a rebuild failed. Unless stated otherwise, the work so far is kept and the next run continues from it; the live data are unchanged.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// Another process rebuilds the same data.
    #[error("another rebuild of {what} is running")]
    Busy { what: &'static str },
    /// The beginning of the log was deleted.
    #[error(
        "partition {partition} of {topic} begins at offset {start}: what came before is in no log, so nothing can be \
         built from it. Restore the table from a backup together with its row of resume_offset; the projection \
         reads on from there"
    )]
    LogStartDeleted {
        topic: String,
        partition: Partition,
        start: i64,
    },
    /// The log ends before the position of a live table.
    #[error(
        "partition {partition} of {topic} was truncated: its log end offset is {end}, and the live table was at {live}. Nothing is replaced by less than \
         there is"
    )]
    LogTruncated {
        topic: String,
        partition: Partition,
        end: i64,
        live: i64,
    },
    /// The shadow tables differ from the log. They were dropped.
    #[error("what was built is not what the log says, and was dropped; the live data are as they were. {}", examples(.0))]
    Mismatch(Vec<Check>),
    /// The contact rows that counts are computed from differ from the log.
    #[error("the contacts in MySQL are not what the log says (`tidemark rebuild contacts` mends that): {}", examples(std::slice::from_ref(.0)))]
    Contacts(Check),
    /// The swap did not succeed in time.
    #[error(
        "it is built and right, but could not be swapped in: {0}. The next run goes on from here"
    )]
    NotSwapped(String),
    #[error(transparent)]
    Kafka(#[from] EventLogError),
    #[error("chat.events: {0}")]
    UnknownRules(#[from] UnknownRules),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Audit(#[from] AuditError),
    #[error(transparent)]
    Unread(#[from] unread_rebuild::UnreadRebuildError),
    #[error(transparent)]
    Redis(#[from] UnreadError),
    #[error("writing: {0}")]
    Sink(#[from] SinkError),
}

fn examples(checks: &[Check]) -> String {
    let findings = checks.iter().flat_map(|check| &check.examples);
    let findings: Vec<String> = findings.map(ToString::to_string).collect();
    findings.join("; ")
}

impl From<ReplayError> for RebuildError {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Kafka(fault) => fault.into(),
            ReplayError::UnknownRules(unknown) => unknown.into(),
            ReplayError::Sink(error) => error.into(),
        }
    }
}

impl RebuildError {
    /// Whether a retry may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Store(error) | Self::Audit(AuditError::MySql(error)) => error.is_transient(),
            Self::Sink(SinkError::Transient(_)) => true,
            _ => false,
        }
    }
}
