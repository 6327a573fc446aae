use std::time::Duration;

use event_log::EventLogError;
use message_store::StoreError;
use unread_store::UnreadError;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// Kafka could not be read.
    #[error(transparent)]
    Kafka(#[from] EventLogError),
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
