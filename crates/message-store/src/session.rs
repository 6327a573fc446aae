//! A connection in use.

use std::time::Duration;

use sqlx::{
    AssertSqlSafe, Executor as _, MySql, MySqlPool,
    mysql::{MySqlArguments, MySqlConnectOptions, MySqlPoolOptions, MySqlRow, MySqlSslMode},
    pool::PoolConnection,
};
use tokio::time::{error::Elapsed, timeout};

use crate::{MySqlConfig, ServerConfig, StoreError, TlsMode, multi_row::MultiRow};

/// What every session relies on, whatever the server's defaults are.
///
/// - READ COMMITTED: a write locks the rows that it names and no gaps, so writers of different partitions do not meet.
/// - The lock timeouts keep one that waits for an ALTER TABLE, or the other way round, from holding up all others.
/// - A writer that stands still in the middle of a transaction keeps its locks from whoever has taken over from it, so the
///   server ends it. Only MariaDB knows how; to MySQL this is a comment.
const SESSION: &str = "SET NAMES utf8mb4 COLLATE utf8mb4_bin; \
    SET SESSION time_zone = '+00:00', lock_wait_timeout = 10, innodb_lock_wait_timeout = 10, \
    /*M! idle_write_transaction_timeout = 10, */ \
    sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'; \
    SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";

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
        // Ends the snapshot of a reader that is done.
        .after_release(|connection, _| {
            Box::pin(async move {
                let rollback = connection.execute("ROLLBACK");
                let ended = timeout(RELEASE_TIMEOUT, rollback).await;
                Ok(matches!(ended, Ok(Ok(_))))
            })
        })
        .connect_lazy_with(connect_options(server))
}

const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

fn connect_options(server: &ServerConfig) -> MySqlConnectOptions {
    let mut options = MySqlConnectOptions::new()
        .host(&server.host)
        .port(server.port)
        .username(&server.user)
        .password(server.password.expose())
        .ssl_mode(match server.tls {
            TlsMode::Disabled => MySqlSslMode::Disabled,
            TlsMode::Required => MySqlSslMode::Required,
            TlsMode::VerifyCa => MySqlSslMode::VerifyCa,
            TlsMode::VerifyIdentity => MySqlSslMode::VerifyIdentity,
        })
        .statement_cache_capacity(STATEMENT_CACHE)
        // All of this is in SESSION.
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
/// One on which a statement failed or was cut off (deadline, dropped future) is closed when this is dropped: what the
/// server makes of it then is unknown, so nobody else may use it. Any other goes back to the pool.
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

    /// Runs text without parameters, one statement or several; how many rows it matched or inserted.
    pub(crate) async fn execute(&mut self, sql: String) -> Result<u64, StoreError> {
        let statement = sqlx::raw_sql(AssertSqlSafe(sql));
        self.clean = false;
        let answer = timeout(self.deadline, statement.execute(&mut *self.connection)).await;
        Ok(self.settle(answer)?.rows_affected())
    }

    /// Runs an INSERT; how many rows the server counted.
    pub(crate) async fn insert(&mut self, statement: MultiRow) -> Result<u64, StoreError> {
        let MultiRow {
            sql,
            arguments,
            kept,
            ..
        } = statement;
        let statement = sqlx::query_with(AssertSqlSafe(sql), arguments).persistent(kept);
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

    /// From now on the connection is closed when this is dropped, unless [`release`](Self::release) comes first: it holds
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
