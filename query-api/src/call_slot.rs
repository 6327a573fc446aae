//! The slots of calls that are being processed. A call that waits (for a store, or for an earlier call of the same user) gives its slot back
//! meanwhile.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The slot of one call.
pub(crate) struct CallSlot {
    all: Arc<Semaphore>,
    held: Mutex<Option<OwnedSemaphorePermit>>,
}

impl CallSlot {
    /// `None` if all are taken.
    pub(crate) fn try_take(all: &Arc<Semaphore>) -> Option<Arc<Self>> {
        let held = Arc::clone(all).try_acquire_owned().ok()?;
        Some(Arc::new(Self {
            all: Arc::clone(all),
            held: Mutex::new(Some(held)),
        }))
    }

    /// Waits without the slot, and takes one again afterwards. A call may have one such wait at a time. If the wait is dropped, the call has to take
    /// a slot with [`Self::again`].
    pub(crate) async fn without<T>(&self, wait: impl Future<Output = T>) -> T {
        drop(self.held.lock().take());
        let waited = wait.await;
        self.again().await;
        waited
    }

    /// Takes a slot again, if the call has none because a wait was dropped.
    pub(crate) async fn again(&self) {
        if self.held.lock().is_none() {
            let again = Arc::clone(&self.all).acquire_owned().await;
            *self.held.lock() = again.ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::ready, pin::pin};

    use futures::poll;

    use super::*;

    #[tokio::test]
    async fn who_waits_leaves_the_slot_to_others_and_has_one_again() {
        let all = Arc::new(Semaphore::new(1));
        let slot = CallSlot::try_take(&all).unwrap();
        assert!(CallSlot::try_take(&all).is_none());
        let mut wait = pin!(slot.without(std::future::pending::<()>()));
        assert!(poll!(&mut wait).is_pending());
        let other = CallSlot::try_take(&all).unwrap();
        let mut back = pin!(slot.without(ready(())));
        assert!(poll!(&mut back).is_pending(), "there is none to go on with");
        drop(other);
        back.await;
        assert!(CallSlot::try_take(&all).is_none());
        let mut dropped = Box::pin(slot.without(std::future::pending::<()>()));
        assert!(poll!(&mut dropped).is_pending());
        drop(dropped);
        slot.again().await;
        assert!(CallSlot::try_take(&all).is_none(), "the call has its slot");
    }
}
