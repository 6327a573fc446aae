use std::time::Duration;

use redis::RedisError;
use schemas::UserId;
use tokio::{sync::Mutex, time::Instant};

use crate::{Connection, Slot, UnreadError, UnreadStore};

/// After a failed attempt to connect all callers get its error for this long, and nobody tries again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Connections for many callers, one to each slot; one that failed is replaced. A projection owns a [`Connection`] instead, since after
/// a failure it has to check whether Redis lost its writes. A gateway can share connections, since it notices such a loss by its lease.
#[derive(Debug)]
pub struct SharedConnections {
    store: UnreadStore,
    connections: Vec<SharedConnection>,
}

#[derive(Debug)]
struct SharedConnection {
    slot: Slot,
    current: Mutex<Current>,
}

#[derive(Debug)]
enum Current {
    None,
    Connected(Connection),
    Failed { at: Instant, error: RedisError },
}

impl SharedConnections {
    /// Connects on first use.
    #[must_use]
    pub fn new(store: UnreadStore) -> Self {
        let connection = |slot: &Slot| SharedConnection {
            slot: slot.clone(),
            current: Mutex::new(Current::None),
        };
        Self {
            connections: store.slots().iter().map(connection).collect(),
            store,
        }
    }

    /// The store with the slots of these connections.
    #[must_use]
    pub fn store(&self) -> &UnreadStore {
        &self.store
    }

    /// The current connection to a user's slot, or a new one.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn of(&self, uid: UserId) -> Result<Connection, UnreadError> {
        self.get(self.store.index_of(uid)).await
    }

    /// The current connection to the slot with this index, or a new one.
    ///
    /// # Errors
    /// [`UnreadError::Transient`] if connecting fails, or failed less than a tenth of a second ago.
    pub async fn get(&self, index: usize) -> Result<Connection, UnreadError> {
        self.connections[index].get().await
    }

    /// The result of `call` on the current connection to the slot with this index. If that connection turns out to be broken, as
    /// an idle one is after a failover, `call` runs once more on a new one, but not after a timeout. Only for calls that may run twice.
    ///
    /// # Errors
    /// As [`Self::get`], and those of `call`.
    pub async fn call<T, F>(
        &self,
        index: usize,
        call: impl Fn(Connection) -> F,
    ) -> Result<T, UnreadError>
    where
        F: Future<Output = Result<T, UnreadError>>,
    {
        match call(self.get(index).await?).await {
            Err(UnreadError::Broken) => {}
            Err(UnreadError::Transient(error)) if !error.is_timeout() => {}
            outcome => return outcome,
        }
        call(self.get(index).await?).await
    }
}

impl SharedConnection {
    async fn get(&self) -> Result<Connection, UnreadError> {
        // Held while connecting, so that a hundred waiting readers open one connection.
        let mut current = self.current.lock().await;
        match &*current {
            Current::Connected(connection) if !connection.has_failed() => {
                return Ok(connection.clone());
            }
            Current::Failed { at, error } if at.elapsed() < RETRY_PAUSE => {
                return Err(UnreadError::Transient(error.clone()));
            }
            _ => {}
        }
        match self.slot.connect().await {
            Ok(connection) => {
                *current = Current::Connected(connection.clone());
                Ok(connection)
            }
            Err(error) => {
                if let UnreadError::Transient(error) = &error {
                    *current = Current::Failed {
                        at: Instant::now(),
                        error: error.clone(),
                    };
                }
                Err(error)
            }
        }
    }
}
