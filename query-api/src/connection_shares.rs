//! What each user's calls may have of the connections to the database servers.

use std::{
    collections::HashMap,
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use message_store::ReadTx;
use schemas::UserId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::call_slot::CallSlot;

/// How many connections to each database server a user's calls may have at a time. Further ones wait for the user's own earlier ones, in order.
pub(crate) struct ConnectionShares {
    of_user: usize,
    taken: Mutex<HashMap<(UserId, usize), Arc<Semaphore>>>,
}

/// A connection's part of its user's share.
pub(crate) struct Share {
    permit: Option<OwnedSemaphorePermit>,
    queue: Arc<Semaphore>,
    key: (UserId, usize),
    shares: Arc<ConnectionShares>,
}

impl ConnectionShares {
    /// A quarter of a server's connections, and one at least.
    pub(crate) fn new(connections_per_server: u32) -> Arc<Self> {
        let of_user = (connections_per_server / 4).max(1);
        Arc::new(Self {
            of_user: usize::try_from(of_user).unwrap_or(usize::MAX),
            taken: Mutex::default(),
        })
    }

    /// The user's queue for a server.
    pub(crate) fn enter(self: &Arc<Self>, user: UserId, server: usize) -> Share {
        let mut taken = self.lock();
        let queue = taken.entry((user, server));
        let queue = queue.or_insert_with(|| Arc::new(Semaphore::new(self.of_user)));
        Share {
            permit: None,
            queue: Arc::clone(queue),
            key: (user, server),
            shares: Arc::clone(self),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(UserId, usize), Arc<Semaphore>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Waits for the user's earlier calls, without `slot` if it has to.
    pub(crate) async fn acquire(mut self, slot: &CallSlot) -> Self {
        let queue = Arc::clone(&self.queue);
        self.permit = match Arc::clone(&queue).try_acquire_owned() {
            Ok(permit) => Some(permit),
            // The semaphore is never closed.
            Err(_) => slot.without(queue.acquire_owned()).await.ok(),
        };
        self
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        drop(self.permit.take());
        let mut taken = self.shares.lock();
        // The map's, and this one's: nobody else of the user is there.
        if Arc::strong_count(&self.queue) == 2 {
            taken.remove(&self.key);
        }
    }
}

/// A snapshot of a database, with the part of the user's share that its connection is.
pub(crate) struct Snapshot {
    tx: ReadTx,
    _share: Option<Share>,
}

impl Snapshot {
    pub(crate) fn new(tx: ReadTx, share: Option<Share>) -> Self {
        Self { tx, _share: share }
    }
}

impl Deref for Snapshot {
    type Target = ReadTx;

    fn deref(&self) -> &ReadTx {
        &self.tx
    }
}

impl DerefMut for Snapshot {
    fn deref_mut(&mut self) -> &mut ReadTx {
        &mut self.tx
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::poll;

    use super::*;

    fn user(uid: i64) -> UserId {
        uid.try_into().unwrap()
    }

    fn slot() -> (Arc<Semaphore>, Arc<CallSlot>) {
        let all = Arc::new(Semaphore::new(1));
        let slot = CallSlot::try_take(&all).unwrap();
        (all, slot)
    }

    #[tokio::test]
    async fn a_user_waits_for_his_own_calls_without_a_slot_and_others_do_not() {
        let shares = ConnectionShares::new(8);
        let (all, slot) = slot();
        let first = shares.enter(user(1), 0).acquire(&slot).await;
        let _second = shares.enter(user(1), 0).acquire(&slot).await;
        let mut third = pin!(shares.enter(user(1), 0).acquire(&slot));
        assert!(poll!(&mut third).is_pending());
        let of_other = CallSlot::try_take(&all).expect("who waits has no slot");
        let _other = shares.enter(user(2), 0).acquire(&of_other).await;
        let _elsewhere = shares.enter(user(1), 1).acquire(&of_other).await;
        drop(of_other);
        drop(first);
        let _third = third.await;
    }

    #[tokio::test]
    async fn users_without_a_connection_are_forgotten() {
        let shares = ConnectionShares::new(1);
        let (_all, slot) = slot();
        let first = shares.enter(user(1), 0).acquire(&slot).await;
        let mut second = Box::pin(shares.enter(user(1), 0).acquire(&slot));
        assert!(poll!(&mut second).is_pending());
        drop(first);
        assert_eq!(shares.lock().len(), 1);
        drop(second);
        assert!(shares.lock().is_empty());
    }
}
