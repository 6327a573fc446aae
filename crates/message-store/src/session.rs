//! A connection in use.

use std::time::Duration;

use sqlx::{
    AssertSqlSafe, Executor as _, MySql, MySqlPool,
    mysql::{MySqlArguments, MySqlConnectOptions, MySqlPoolOptions, MySqlRow, MySqlSslMode},
    pool::PoolConnection,
};
use tokio::time::{error::Elapsed, timeout};

use crate::{MySqlConfig, ServerConfig, StoreError, TlsMode, multi_row::MultiRow};

/// The settings that every session relies on, whatever the server's defaults are.
///
/// - READ COMMITTED: a write locks the rows that it names and no gaps, so writers of different partitions do not meet.
/// - The lock timeouts: a statement that waits for an ALTER TABLE, or an ALTER TABLE that waits for a statement, does not hold up all others.
const SESSION: &str = "SET NAMES utf8mb4 COLLATE utf8mb4_bin; \
    SET SESSION time_zone = '+00:00', lock_wait_timeout = 10, innodb_lock_wait_timeout = 10, \
    sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'; \
    SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";

/// The beginning of a transaction that writes. A writer that stops in the middle of it (a stopped process, a host that vanished) keeps its locks from
/// its successor, so the server closes a connection that is silent for 10 s, and rolls back. MariaDB's `idle_write_transaction_timeout` does no more,
/// and MySQL does not have it.
pub(crate) const WRITE_BEGIN: &str = "SET SESSION wait_timeout = 10; START TRANSACTION";

/// Ends the snapshot of a reader that is done, and undoes what [`WRITE_BEGIN`] set: in the pool a connection may be idle.
const AFTER_USE: &str = "ROLLBACK; SET SESSION wait_timeout = DEFAULT";

/// How many prepared statements a connection keeps: those of `multi_row` for 64 tables, and some for reading. All of them
/// count against the server's `max_prepared_stmt_count`, 16,382 by default.
const STATEMENT_CACHE: usize = 320;

/// A pool for one server. Nothing is connected yet.
pub(crate) fn lazy_pool(server: &ServerConfig, config: &MySqlConfig) -> MySqlPool {
    MySqlPoolOptions::new()
        .max_connections(config.connections_per_server)
        .acquire_timeout(Duration::from_millis(config.connect_timeout_ms))
        .after_connect(|connection, _| {
            Box::pin(async move {
                connection.execute(sqlx::raw_sql(SESSION)).await?;
                Ok(())
            })
        })
        .after_release(|connection, _| {
            Box::pin(async move {
                let clean_up = connection.execute(sqlx::raw_sql(AFTER_USE));
                let ended = timeout(RELEASE_TIMEOUT, clean_up).await;
                Ok(matches!(ended, Ok(Ok(_))))
            })
        })
        .connect_lazy_with(connect_options(server, config))
}

const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

fn connect_options(server: &ServerConfig, config: &MySqlConfig) -> MySqlConnectOptions {
    let (user, password) = config.login(server);
    let mut options = MySqlConnectOptions::new()
        .host(&server.host)
        .port(server.port)
        .username(user)
        .password(password.expose())
        .ssl_mode(match server.tls {
            TlsMode::Disabled => MySqlSslMode::Disabled,
            TlsMode::Required => MySqlSslMode::Required,
            TlsMode::VerifyCa => MySqlSslMode::VerifyCa,
            TlsMode::VerifyIdentity => MySqlSslMode::VerifyIdentity,
        })
        .statement_cache_capacity(STATEMENT_CACHE)
        // SESSION sets all of these.
        .pipes_as_concat(false)
        .no_engine_substitution(false)
        .timezone(None)
        .set_names(false);
    if let Some(ca) = &server.tls_ca {
        options = options.ssl_ca(ca);
    }
    // Statements contain message texts, which no log may have.
    sqlx::ConnectOptions::disable_statement_logging(options)
}

/// A pooled connection with a deadline for every statement.
///
/// If a statement failed or was cut off (deadline, dropped future), the connection is closed when the session is dropped: its state on the server is
/// unknown, so it must not be used again. Otherwise it goes back to the pool.
#[derive(Debug)]
pub(crate) struct Session {
    connection: PoolConnection<MySql>,
    deadline: Duration,
    clean: bool,
    sticky: bool,
}

impl Session {
    pub(crate) async fn acquire(pool: &MySqlPool, deadline: Duration) -> Result<Self, StoreError> {
        Ok(Self {
            connection: pool.acquire().await?,
            deadline,
            clean: true,
            sticky: false,
        })
    }

    /// Runs text without parameters, one statement or several. Returns how many rows it matched or inserted.
    pub(crate) async fn execute(&mut self, sql: String) -> Result<u64, StoreError> {
        let statement = sqlx::raw_sql(AssertSqlSafe(sql));
        self.clean = false;
        let answer = timeout(self.deadline, statement.execute(&mut *self.connection)).await;
        Ok(self.settle(answer)?.rows_affected())
    }

    /// Runs an INSERT or UPDATE. Returns how many rows the server counted. The statement stays with the caller, who may have to run it again.
    pub(crate) async fn insert(&mut self, statement: &MultiRow) -> Result<u64, StoreError> {
        let MultiRow {
            sql,
            arguments,
            kept,
            ..
        } = statement;
        let statement = sqlx::query_with(AssertSqlSafe(sql.clone()), arguments.clone());
        let statement = statement.persistent(*kept);
        self.clean = false;
        let answer = timeout(self.deadline, statement.execute(&mut *self.connection)).await;
        Ok(self.settle(answer)?.rows_affected())
    }

    /// The rows of a prepared statement.
    pub(crate) async fn fetch(
        &mut self,
        sql: String,
        arguments: MySqlArguments,
    ) -> Result<Vec<MySqlRow>, StoreError> {
        let statement = sqlx::query_with(AssertSqlSafe(sql), arguments);
        self.clean = false;
        let answer = timeout(self.deadline, statement.fetch_all(&mut *self.connection)).await;
        self.settle(answer)
    }

    /// The rows of a statement without parameters, which the server does not keep.
    pub(crate) async fn fetch_text(&mut self, sql: String) -> Result<Vec<MySqlRow>, StoreError> {
        let statement = sqlx::raw_sql(AssertSqlSafe(sql));
        self.clean = false;
        let answer = timeout(self.deadline, statement.fetch_all(&mut *self.connection)).await;
        self.settle(answer)
    }

    /// From now on the connection is closed when the session is dropped, unless [`release`](Self::release) comes first: the connection holds
    /// something that must not reach its next user.
    pub(crate) fn close_unless_released(&mut self) {
        self.sticky = true;
    }

    /// Gives the connection back to the pool.
    pub(crate) fn release(mut self) {
        self.sticky = false;
    }

    fn settle<T>(&mut self, answer: Result<sqlx::Result<T>, Elapsed>) -> Result<T, StoreError> {
        let value = answer.map_err(|_| {
            StoreError::transient(format!("no answer within {} ms", self.deadline.as_millis()))
        })??;
        self.clean = true;
        Ok(value)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.clean || self.sticky {
            self.connection.close_on_drop();
        }
    }
}

#[cfg(test)]
mod tests {
    use dev_stack::TestServers;
    use tokio::time::Instant;

    use super::*;

    async fn session(pool: &MySqlPool) -> Session {
        Session::acquire(pool, Duration::from_secs(60))
            .await
            .unwrap()
    }

    /// Seconds until the server closes an idle connection.
    async fn wait_timeout(session: &mut Session) -> u64 {
        use sqlx::Row as _;
        let sql = "SELECT @@SESSION.wait_timeout AS seconds".to_owned();
        session.fetch_text(sql).await.unwrap()[0].get("seconds")
    }

    #[tokio::test]
    async fn a_writer_that_stands_still_loses_its_locks_and_an_idle_connection_nothing() {
        let servers = tokio::task::spawn_blocking(TestServers::shared)
            .await
            .unwrap();
        let server: ServerConfig = servers.mysql_url.parse().unwrap();
        let pool = lazy_pool(&server, &MySqlConfig::default());
        let database = format!("t{}_frozen", std::process::id());
        let mut other = session(&pool).await;
        for sql in [
            format!("CREATE DATABASE {database}"),
            format!("CREATE TABLE {database}.t (a INT PRIMARY KEY) ENGINE = InnoDB"),
        ] {
            other.execute(sql).await.unwrap();
        }
        let usual = wait_timeout(&mut other).await;
        let insert = format!("INSERT INTO {database}.t VALUES (1)");
        let mut frozen = session(&pool).await;
        frozen.execute(WRITE_BEGIN.to_owned()).await.unwrap();
        frozen.execute(insert.clone()).await.unwrap();

        // The successor tries again after a lock timeout, as after any transient error.
        let deadline = Instant::now() + Duration::from_secs(30);
        while let Err(error) = other.execute(insert.clone()).await {
            assert!(error.is_transient() && Instant::now() < deadline, "{error}");
            other = session(&pool).await;
        }
        assert!(frozen.execute("COMMIT".to_owned()).await.is_err());

        other.execute(WRITE_BEGIN.to_owned()).await.unwrap();
        drop((frozen, other));
        let mut used = session(&pool).await;
        assert_eq!(wait_timeout(&mut used).await, usual);
    }
}
