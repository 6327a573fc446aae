use crate::{Shard, Sink};

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a call failed, classified by what the caller has to do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Keep the data and retry later: a server that does not answer or is full, a deadlock, a missing month, a schema that is not
    /// applied. It is not known whether a transaction was committed; the conditional offset update of the retry shows it.
    #[error("MySQL cannot do it now: {0}")]
    Transient(#[source] Cause),
    /// A resume offset is not the expected one: read the offsets again and go on from there. Nothing was written.
    #[error("the {} offsets in database {} are not the expected ones", sink.name(), shard.get())]
    Moved {
        /// The kind of rows.
        sink: Sink,
        /// The database.
        shard: Shard,
    },
    /// A retry fails again.
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

    /// The same error, with the name of the table.
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

    /// Whether MySQL does not let this user in, or not into this database.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(self.number(), Some(DATABASE_DENIED | ACCESS_DENIED))
    }

    pub(crate) fn is_duplicate(&self) -> bool {
        self.number() == Some(DUPLICATE_ENTRY)
    }

    pub(crate) fn table_exists(&self) -> bool {
        self.number() == Some(TABLE_EXISTS)
    }

    /// Whether an ALTER TABLE adds a column or key that exists, or drops one that does not.
    pub(crate) fn is_altered_already(&self) -> bool {
        matches!(
            self.number(),
            Some(DUPLICATE_COLUMN | DUPLICATE_KEY | NO_SUCH_KEY)
        )
    }

    pub(crate) fn is_month_missing(&self) -> bool {
        self.number() == Some(NO_SUCH_PARTITION)
    }

    /// The number of an error of the server.
    fn number(&self) -> Option<u16> {
        let (Self::Transient(cause) | Self::Fatal(cause)) = self else {
            return None;
        };
        let mut causes =
            std::iter::successors(Some(&**cause as &dyn std::error::Error), |e| e.source());
        causes.find_map(|cause| number(cause.downcast_ref()?))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{table}: {cause}")]
struct OfTable {
    table: String,
    #[source]
    cause: Cause,
}

#[derive(Debug, thiserror::Error)]
#[error("{cause} ({hint})")]
struct Hinted {
    hint: &'static str,
    #[source]
    cause: sqlx::Error,
}

/// The setting that may be wrong, if the error tells.
fn hint(error: &sqlx::Error) -> Option<&'static str> {
    match (error, number(error)) {
        // Unknown user, wrong password, and REQUIRE SSL for a connection without it.
        (_, Some(1045 | 1698 | 3159)) => Some(
            "the server refuses mysql.user with mysql.password, or wants mysql.servers.tls to be other than disabled",
        ),
        (_, Some(1044 | 1142..=1143 | 1227 | 1370)) => Some(
            "the user of mysql.user lacks a grant; docs/SECURITY.md has those that each service needs",
        ),
        (_, Some(NO_SUCH_DATABASE | NO_SUCH_TABLE | NO_SUCH_COLUMN)) => Some(
            "`tidemark db apply` makes it, unless mysql.databases is not the number that the others were made with",
        ),
        (sqlx::Error::Tls(tls), _) if tls.to_string().contains("not support") => {
            Some("the server has no TLS, which mysql.servers.tls asks for")
        }
        (sqlx::Error::Tls(_), _) => Some(NOT_TRUSTED),
        (sqlx::Error::Io(io), _) if io.to_string().contains("certificate") => Some(NOT_TRUSTED),
        _ => None,
    }
}

const NOT_TRUSTED: &str = "no authority of mysql.servers.tls_ca has signed the server's certificate, or it is for another \
     name than mysql.servers.host";

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let passes = match &error {
            sqlx::Error::Database(_) => number(&error).is_some_and(is_transient_number),
            // Anything that breaks the connection; Protocol is what a cut-off or foreign answer looks like.
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => true,
            _ => false,
        };
        let cause: Cause = match hint(&error) {
            Some(hint) => Box::new(Hinted { hint, cause: error }),
            None => Box::new(error),
        };
        if passes {
            Self::transient(cause)
        } else {
            Self::fatal(cause)
        }
    }
}

const DATABASE_DENIED: u16 = 1044;
const ACCESS_DENIED: u16 = 1045;
const TABLE_EXISTS: u16 = 1050;
const DUPLICATE_COLUMN: u16 = 1060;
const DUPLICATE_KEY: u16 = 1061;
const DUPLICATE_ENTRY: u16 = 1062;
const NO_SUCH_KEY: u16 = 1091;
const NO_SUCH_PARTITION: u16 = 1735;
const NO_SUCH_DATABASE: u16 = 1049;
const NO_SUCH_TABLE: u16 = 1146;
const NO_SUCH_COLUMN: u16 = 1054;

/// The number of an error of the server.
fn number(error: &sqlx::Error) -> Option<u16> {
    let refusal = error.as_database_error()?;
    let refusal = refusal.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>()?;
    Some(refusal.number())
}

/// Whether an error of the server says nothing about the statement itself.
fn is_transient_number(number: u16) -> bool {
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
        // No partition for the row, or none of that name: a month is missing. The table was altered under a snapshot or a statement.
        NO_SUCH_PARTITION | 1526 | 1412 | 1615 => true,
        // No such database or table: the schema is yet to be applied.
        NO_SUCH_DATABASE | NO_SUCH_TABLE | NO_SUCH_COLUMN => true,
        _ => false,
    }
}
