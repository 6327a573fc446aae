//! The errors of calls, and their responses.

use std::fmt;

use axum::response::{IntoResponse, Response};
use event_log::EventLogError;
use message_store::{Shard, Sink, StoreError};
use problem::Problem;
use schemas::event::UnknownRules;
use unread_rebuild::UnreadRebuildError;

use crate::after::RequiredWatermarks;

/// `Retry-After` of calls that failed because a store is down.
const RETRY_AFTER_S: u64 = 1;

#[derive(Debug, thiserror::Error)]
pub(crate) enum QueryError {
    /// The request is invalid, or names something that does not exist.
    #[error("{0}")]
    Refused(#[from] Problem),
    /// A store has not reached `after=` or `since=`. The call is repeated until its deadline.
    #[error("{0}")]
    Lagging(Lag),
    /// Rows of changes after `since=` are deleted (PROTOCOL Y8): everything is returned.
    #[error("since is from before what is still known")]
    Forgotten,
    /// A store had not reached `after=` or `since=` at the deadline.
    #[error("{lag} within {timeout_ms} ms")]
    StoreLags { lag: Lag, timeout_ms: u16 },
    /// The log lacks what `after=` requires, so no store will have it: there is nothing to wait for.
    #[error("{0} is above the end of the log, so there is nothing to wait for")]
    NotOnTheLog(RequiredWatermarks),
    /// A store did not respond in time.
    #[error("no answer could be made within {timeout_ms} ms")]
    TimedOut { timeout_ms: u16 },
    /// The log has to be read further than one call may.
    #[error("what became of it is not within {records} records of where it should be")]
    ScanTooLong { records: usize },
    /// The user is absent in Redis and could not be rebuilt yet.
    #[error("the unread counts were not rebuilt: {0}")]
    NotRebuilt(#[from] UnreadRebuildError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Log(#[from] EventLogError),
    /// The log has an event that only a newer program knows.
    #[error("what became of it may be in an event that this server cannot read: {0}")]
    NewerEvent(#[from] UnknownRules),
    /// A bug, or invalid data in a store.
    #[error("{0}")]
    Defect(String),
}

impl QueryError {
    /// The error of a call, or a part of one, that waits for nothing but MySQL.
    pub(crate) fn of_mysql(self) -> Self {
        match self {
            Self::TimedOut { timeout_ms } => {
                Problem::timeout(format!("MySQL did not answer within {timeout_ms} ms")).into()
            }
            other => other,
        }
    }
}

/// A store that has not reached the events that the response has to reflect.
#[derive(Clone, Debug)]
pub(crate) struct Lag {
    pub(crate) store: LaggingStore,
    pub(crate) missing: RequiredWatermarks,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum LaggingStore {
    Redis,
    Sink(Shard, Sink),
    /// Both sinks that store read positions lag.
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

impl fmt::Display for Lag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has not reached {}", self.store, self.missing)
    }
}

impl From<QueryError> for Problem {
    fn from(error: QueryError) -> Self {
        let detail = error.to_string();
        match error {
            QueryError::Refused(problem) => problem,
            QueryError::Lagging(_)
            | QueryError::StoreLags { .. }
            | QueryError::NotOnTheLog(_)
            | QueryError::TimedOut { .. }
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
            QueryError::NewerEvent(_) => Self::unavailable(detail, RETRY_AFTER_S),
            QueryError::Forgotten | QueryError::Store(_) | QueryError::Defect(_) => {
                Self::internal()
            }
        }
    }
}

impl IntoResponse for QueryError {
    fn into_response(self) -> Response {
        let error = self.to_string();
        let problem = Problem::from(self);
        match problem.status {
            500 => tracing::error!(error, "the call failed"),
            503 => tracing::warn!(error, "the call failed"),
            _ => {}
        }
        problem.into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_logged_and_not_in_the_response() {
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
