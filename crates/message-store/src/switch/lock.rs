use sqlx::{Row as _, mysql::MySqlArguments};

use crate::{MessageStore, Shard, StoreError, session::Session};

/// The lock's connection says nothing for as long as a table takes.
const PATIENT: &str = "SET SESSION wait_timeout = 2592000";

/// The right to rebuild `what` (a plain word) on the server of a database. It ends with the process, however that ends.
#[derive(Debug)]
pub struct RebuildLock {
    session: Session,
    name: String,
}

impl RebuildLock {
    /// Takes it; `None` where somebody else has it.
    ///
    /// # Errors
    /// Transient where the server cannot be reached.
    pub async fn take(
        store: &MessageStore,
        shard: Shard,
        what: &str,
    ) -> Result<Option<Self>, StoreError> {
        let name = format!("tidemark.rebuild.{}{what}", store.names().prefix());
        let mut session = store.session(shard).await?;
        // It belongs to the connection, which must not go back to the pool with it.
        session.close_unless_released();
        session.execute(PATIENT.to_owned()).await?;
        let sql = format!("SELECT GET_LOCK('{name}', 0) = 1 AS fine");
        let mut lock = Self { session, name };
        Ok(lock.ask(sql).await?.then_some(lock))
    }

    /// Makes sure that it is still held: a server that was restarted has forgotten it.
    ///
    /// # Errors
    /// Transient where it is lost.
    pub async fn check(&mut self) -> Result<(), StoreError> {
        let name = &self.name;
        let sql = format!("SELECT IS_USED_LOCK('{name}') = CONNECTION_ID() AS fine");
        if self.ask(sql).await? {
            return Ok(());
        }
        Err(StoreError::transient("the lock of this rebuild was lost"))
    }

    async fn ask(&mut self, sql: String) -> Result<bool, StoreError> {
        let rows = self.session.fetch(sql, MySqlArguments::default()).await?;
        let fine: Option<bool> = rows[0].try_get("fine")?;
        Ok(fine == Some(true))
    }
}
