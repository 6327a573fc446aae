//! Why a call is not answered, and what the caller is told.

use std::fmt;

use axum::response::{IntoResponse, Response};
use event_log::EventLogError;
use message_store::{Shard, Sink, StoreError};
use problem::Problem;
use unread_rebuild::UnreadRebuildError;

use crate::after::Needed;

/// Seconds after which a call that found something down may be tried again.
const RETRY_AFTER_S: u64 = 1;

/// A call that cannot be answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QueryError {
    /// The caller asked for what there is not.
    #[error("{0}")]
    Refused(#[from] Problem),
    /// A store is behind what `after=` names. Whoever can wait looks again.
    #[error("{0}")]
    Lagging(Lagging),
    /// It still was when the time was up.
    #[error("{lagging} within {timeout_ms} ms")]
    TooLate {
        /// Which store, and what it lacks.
        lagging: Lagging,
        /// The time that the caller gave.
        timeout_ms: u16,
    },
    /// Something that is needed did not answer in time.
    #[error("no answer could be made within {timeout_ms} ms")]
    Stalled {
        /// The time that the caller gave.
        timeout_ms: u16,
    },
    /// The log has to be read further than one call may.
    #[error("what became of it is not within {records} records of where it should be")]
    ScanTooLong {
        /// How many were read.
        records: usize,
    },
    /// The user's unread counts are not in Redis and could not be made anew yet.
    #[error("the unread counts cannot be told: {0}")]
    NotRebuilt(#[from] UnreadRebuildError),
    /// MySQL failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Kafka failed.
    #[error(transparent)]
    Log(#[from] EventLogError),
    /// A defect of ours, or someone else's data in a store.
    #[error("{0}")]
    Defect(String),
}

/// A store that has not taken in yet what an answer has to reflect.
#[derive(Clone, Debug)]
pub(crate) struct Lagging {
    /// Which.
    pub(crate) store: LaggingStore,
    /// What it lacks.
    pub(crate) needed: Needed,
}

/// The stores that may lag, as far as a caller can tell them apart.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LaggingStore {
    Redis,
    Sink(Shard, Sink),
    /// Of the two sinks that keep read positions neither has come far enough.
    ReadPositions,
}

impl fmt::Display for LaggingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Redis => "Redis",
            Self::Sink(_, Sink::Messages) => "MySQL (messages)",
            Self::Sink(_, Sink::Contacts) => "MySQL (contacts)",
            Self::Sink(_, Sink::Reads) | Self::ReadPositions => "MySQL (read positions)",
        })
    }
}

impl fmt::Display for Lagging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has not reached {}", self.store, self.needed)
    }
}

impl From<QueryError> for Problem {
    fn from(error: QueryError) -> Self {
        let detail = error.to_string();
        match error {
            QueryError::Refused(problem) => problem,
            QueryError::Lagging(_)
            | QueryError::TooLate { .. }
            | QueryError::Stalled { .. }
            | QueryError::ScanTooLong { .. } => Self::timeout(detail),
            QueryError::NotRebuilt(UnreadRebuildError::Fatal(_)) => Self::internal(),
            QueryError::NotRebuilt(_) => Self::unavailable(
                "the unread counts are being rebuilt and are not whole yet; nothing partial is answered",
                RETRY_AFTER_S,
            ),
            QueryError::Store(error) if error.is_transient() => {
                Self::unavailable("MySQL does not answer at present", RETRY_AFTER_S)
            }
            QueryError::Log(_) => {
                Self::unavailable("Kafka does not answer at present", RETRY_AFTER_S)
            }
            QueryError::Store(_) | QueryError::Defect(_) => Self::internal(),
        }
    }
}

impl IntoResponse for QueryError {
    fn into_response(self) -> Response {
        let words = self.to_string();
        let problem = Problem::from(self);
        match problem.status {
            500 => tracing::error!(error = words, "cannot answer"),
            503 => tracing::warn!(error = words, "cannot answer"),
            _ => {}
        }
        problem.into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_stay_in_the_log() {
        let defect = QueryError::Defect("column mid: -1".to_owned());
        assert!(!Problem::from(defect).detail.contains("column"));
        let rebuilding = Problem::from(QueryError::NotRebuilt(UnreadRebuildError::Transient(
            "10.0.0.1".to_owned(),
        )));
        assert_eq!(
            (rebuilding.status, rebuilding.retry_after_s),
            (503, Some(1))
        );
        assert!(!rebuilding.detail.contains("10.0.0.1"));
    }
}
