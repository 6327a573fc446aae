//! Reads of MySQL that many devices cause at once, for presence and typing: half of the connections to each server is left to devices that say hello.

use message_store::{MessageStore, MySqlConfig, ReadTx, Shard, StoreError};
use tokio::sync::{Semaphore, SemaphorePermit};

pub(crate) struct SharedReads {
    store: MessageStore,
    /// The permits to read, by server.
    of_server: Vec<Semaphore>,
}

impl SharedReads {
    pub(crate) fn new(store: MessageStore, mysql: &MySqlConfig) -> Self {
        let half = (mysql.connections_per_server as usize / 2).max(1);
        let servers = mysql.servers.iter();
        Self {
            store,
            of_server: servers.map(|_| Semaphore::new(half)).collect(),
        }
    }

    pub(crate) fn store(&self) -> &MessageStore {
        &self.store
    }

    /// Waits until a permit of the server in `of_server` is free, then opens a snapshot. Keep the permit as long as the snapshot.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn snapshot(
        &self,
        shard: Shard,
    ) -> Result<(ReadTx, Option<SemaphorePermit<'_>>), StoreError> {
        let server = self.store.layout().server_of(shard);
        // The semaphore is never closed.
        let permit = self.of_server[server].acquire().await.ok();
        Ok((self.store.snapshot(shard).await?, permit))
    }
}
