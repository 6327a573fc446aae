use crate::{Shard, Sink};

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// What a caller has to do about a failed call.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing is wrong with the data: keep it and try again later. No server, no room, a deadlock, a month that is not
    /// there yet, a schema that was not applied. Whether what was being committed is there is not known, so a writer
    /// reads its resume offsets again first.
    #[error("MySQL cannot do it now: {0}")]
    Transient(#[source] Cause),
    /// A resume offset is not what the writer remembers: read them again and go on from there. Nothing was written.
    #[error("the {} offsets in database {} are not what was remembered", sink.name(), shard.get())]
    Moved {
        /// Whose offsets.
        sink: Sink,
        /// In which database.
        shard: Shard,
    },
    /// Trying again will not help.
    #[error("{0}")]
    Fatal(#[source] Cause),
}

impl StoreError {
    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Transient(_))
    }

    pub(crate) fn transient(cause: impl Into<Cause>) -> Self {
        Self::Transient(cause.into())
    }

    pub(crate) fn fatal(cause: impl Into<Cause>) -> Self {
        Self::Fatal(cause.into())
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let passes = match &error {
            sqlx::Error::Database(refusal) => refusal
                .try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>()
                .is_some_and(|refusal| passes_with_time(refusal.number())),
            // Anything that breaks the connection; Protocol is what a cut-off or foreign answer looks like.
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => true,
            _ => false,
        };
        if passes {
            Self::transient(error)
        } else {
            Self::fatal(error)
        }
    }
}

/// The server's error numbers that say nothing about the statement itself.
fn passes_with_time(number: u16) -> bool {
    match number {
        // Writing a file failed, no memory, disk full, table full, storage engine, threads.
        3 | 1021 | 1026 | 1030 | 1037 | 1038 | 1041 | 1114 | 1135 => true,
        // Too many connections, resources or prepared statements in use.
        1040 | 1203 | 1226 | 1461 => true,
        // Shutting down, aborted, killed, network.
        1053 | 1077 | 1079 | 1152 | 1158..=1161 | 1180 | 1184 | 1317 | 1927 | 2006 | 2013 => true,
        // Lock wait timeout, deadlock, row changed, statement ran too long.
        1020 | 1205 | 1213 | 1969 | 3024 => true,
        // Read-only server.
        1290 | 1836 => true,
        // No partition for the row: the janitor adds the month. The table was altered under a snapshot or a statement.
        1526 | 1412 | 1615 => true,
        // No such database or table: the schema is yet to be applied.
        1049 | 1146 => true,
        _ => false,
    }
}
