use sqlx::{Row as _, mysql::MySqlArguments};

use crate::{MessageStore, Shard, StoreError, session::Session};

/// The lock's connection is idle while tables are built.
const LONG_WAIT_TIMEOUT: &str = "SET SESSION wait_timeout = 2592000";

/// A lock on the rebuild of `what` (a plain word) on the server of a database, under the prefix of its store. The lock is released when
/// the process ends, in whatever way.
#[derive(Debug)]
pub struct RebuildLock {
    session: Session,
    name: String,
}

impl RebuildLock {
    /// Takes the lock; `None` if another process holds it.
    ///
    /// # Errors
    /// Transient if the server cannot be reached.
    pub async fn take(
        store: &MessageStore,
        shard: Shard,
        what: &str,
    ) -> Result<Option<Self>, StoreError> {
        let name = format!("tidemark.rebuild.{}{what}", store.names().prefix());
        let mut session = store.session(shard).await?;
        // The lock belongs to the connection, which must not go back to the pool with it.
        session.close_unless_released();
        session.execute(LONG_WAIT_TIMEOUT.to_owned()).await?;
        let sql = format!("SELECT GET_LOCK('{name}', 0) = 1 AS flag");
        let mut lock = Self { session, name };
        Ok(lock.fetch_flag(sql).await?.then_some(lock))
    }

    /// Checks that the lock is still held: a restarted server has lost it.
    ///
    /// # Errors
    /// Transient if it is lost.
    pub async fn check(&mut self) -> Result<(), StoreError> {
        let name = &self.name;
        let sql = format!("SELECT IS_USED_LOCK('{name}') = CONNECTION_ID() AS flag");
        if self.fetch_flag(sql).await? {
            return Ok(());
        }
        Err(StoreError::transient("the lock of this rebuild was lost"))
    }

    async fn fetch_flag(&mut self, sql: String) -> Result<bool, StoreError> {
        let rows = self.session.fetch(sql, MySqlArguments::default()).await?;
        let flag: Option<bool> = rows[0].try_get("flag")?;
        Ok(flag == Some(true))
    }
}
