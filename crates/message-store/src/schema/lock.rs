//! Only one program at a time changes the schema of a database.

use std::time::Duration;

use sqlx::{Row as _, mysql::MySqlArguments};

use crate::{MessageStore, Shard, StoreError, session::Session};

/// DDL on large tables takes its time.
const DDL_TIMEOUT: Duration = Duration::from_secs(600);

/// How long to wait for another program that changes the schema.
const LOCK_TIMEOUT_S: u32 = 120;

/// A session that holds the schema lock of one database. Dropping it without [`release`](Self::release) closes the
/// connection, which frees the lock too.
#[derive(Debug)]
pub(crate) struct SchemaLock {
    pub(crate) session: Session,
    name: String,
}

impl SchemaLock {
    pub(crate) async fn take(store: &MessageStore, shard: Shard) -> Result<Self, StoreError> {
        let mut session = Session::acquire(store.pool(shard), DDL_TIMEOUT).await?;
        let name = format!("tidemark.schema.{}", store.names().database(shard));
        let sql = format!("SELECT GET_LOCK('{name}', {LOCK_TIMEOUT_S}) = 1 AS taken");
        let rows = session.fetch(sql, MySqlArguments::default()).await?;
        // The lock belongs to the connection, which must not go back to the pool with it.
        session.close_unless_released();
        let taken: Option<bool> = rows[0].try_get("taken")?;
        if taken != Some(true) {
            return Err(StoreError::transient(
                "another program is changing the schema",
            ));
        }
        Ok(Self { session, name })
    }

    pub(crate) async fn release(mut self) -> Result<(), StoreError> {
        self.session
            .execute(format!("DO RELEASE_LOCK('{}')", self.name))
            .await?;
        self.session.release();
        Ok(())
    }
}
