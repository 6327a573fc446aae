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

    /// The same error, which says of which table.
    pub(crate) fn of(self, table: &str) -> Self {
        let located = |cause| OfTable {
            table: table.to_owned(),
            cause,
        };
        match self {
            Self::Transient(cause) => Self::transient(located(cause)),
            Self::Fatal(cause) => Self::fatal(located(cause)),
            Self::Moved { .. } => self,
        }
    }

    /// Whether the server refused a row because one with the same key is there.
    pub(crate) fn is_duplicate(&self) -> bool {
        let Self::Fatal(cause) = self else {
            return false;
        };
        let mut causes =
            std::iter::successors(Some(&**cause as &dyn std::error::Error), |e| e.source());
        causes
            .find_map(|cause| number(cause.downcast_ref()?))
            .is_some_and(|number| number == DUPLICATE_ENTRY)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{table}: {cause}")]
struct OfTable {
    table: String,
    #[source]
    cause: Cause,
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let passes = match &error {
            sqlx::Error::Database(_) => number(&error).is_some_and(passes_with_time),
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

const DUPLICATE_ENTRY: u16 = 1062;

/// The server's number of an error, if it is one of the server's.
fn number(error: &sqlx::Error) -> Option<u16> {
    let refusal = error.as_database_error()?;
    let refusal = refusal.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>()?;
    Some(refusal.number())
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
