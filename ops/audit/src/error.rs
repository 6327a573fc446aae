use std::time::Duration;

use event_log::{EventLogError, Record};
use message_store::StoreError;
use schemas::{Partition, event::UnknownRules};
use unread_store::UnreadError;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// Kafka could not be read.
    #[error(transparent)]
    Kafka(#[from] EventLogError),
    /// A newer program wrote the log from this offset on.
    #[error("offset {offset} of partition {partition} of chat.events: {unknown}")]
    UnknownRules {
        partition: Partition,
        offset: i64,
        unknown: UnknownRules,
    },
    /// MySQL could not be read.
    #[error("MySQL: {0}")]
    MySql(#[from] StoreError),
    /// Redis could not be read.
    #[error("Redis: {0}")]
    Redis(#[from] UnreadError),
    /// The sequencer or a projection did not pass the log's end in time.
    #[error("not caught up after {} s: {what}", waited.as_secs())]
    Behind { waited: Duration, what: String },
}

impl AuditError {
    pub(crate) fn unknown_rules(record: &Record, unknown: UnknownRules) -> Self {
        Self::UnknownRules {
            partition: record.partition,
            offset: record.offset,
            unknown,
        }
    }
}
