//! A limit, in bytes, on what is in memory at a time, and what counts against it.

use std::sync::Arc;

use access::QuotaPermit;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So many bytes; dropping it gives them back to its budget.
pub(crate) type BytePermit = OwnedSemaphorePermit;

/// The bytes of one single post: of the budget, and of its caller's quota.
pub(crate) struct SinglePermit {
    pub(crate) quota: QuotaPermit,
    pub(crate) bytes: BytePermit,
}

/// Bytes that are acquired before something is held in memory.
pub(crate) struct ByteBudget {
    free: Arc<Semaphore>,
    capacity_bytes: u32,
}

impl ByteBudget {
    pub(crate) fn new(capacity_bytes: u32) -> Self {
        Self {
            free: Arc::new(Semaphore::new(capacity_bytes as usize)),
            capacity_bytes,
        }
    }

    /// Acquires bytes if they are free now.
    pub(crate) fn try_acquire(&self, bytes: u32) -> Option<BytePermit> {
        Arc::clone(&self.free).try_acquire_many_owned(bytes).ok()
    }

    /// Waits for free bytes, first come, first served. More than the capacity is never free.
    pub(crate) async fn acquire(&self, bytes: u32) -> BytePermit {
        let acquired = Arc::clone(&self.free).acquire_many_owned(bytes).await;
        acquired.expect("the semaphore is never closed")
    }

    /// Waits until everything was given back. Nothing is acquired meanwhile, nor until the permit is dropped.
    pub(crate) async fn drained(&self) -> BytePermit {
        self.acquire(self.capacity_bytes).await
    }

    pub(crate) fn used_bytes(&self) -> usize {
        self.capacity_bytes as usize - self.free.available_permits()
    }
}

impl SinglePermit {
    /// Gives back all but `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: u32) {
        self.quota.shrink_to(bytes as usize);
        shrink_to(&mut self.bytes, bytes);
    }
}

/// What a record in flight takes beside its key and value: librdkafka's own fields, the delivery handle, and what the allocator rounds up.
const OVERHEAD_BYTES: usize = 512;

/// The bytes that a record with a key and value of `bytes` takes while it is in flight.
pub(crate) fn cost_bytes(bytes: usize) -> u32 {
    u32::try_from(bytes + OVERHEAD_BYTES).unwrap_or(u32::MAX)
}

/// Gives back up to `bytes` of a permit.
pub(crate) fn release(permit: &mut BytePermit, bytes: usize) {
    drop(permit.split(bytes.min(permit.num_permits())));
}

/// Gives back all but `bytes` of a permit.
fn shrink_to(permit: &mut BytePermit, bytes: u32) {
    release(permit, permit.num_permits().saturating_sub(bytes as usize));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_when_they_are_released_or_dropped() {
        let budget = ByteBudget::new(100);
        let mut permit = budget.try_acquire(80).unwrap();
        assert!(budget.try_acquire(21).is_none());
        shrink_to(&mut permit, 50);
        shrink_to(&mut permit, 60);
        assert_eq!(budget.used_bytes(), 50);
        release(&mut permit, 30);
        assert_eq!(budget.used_bytes(), 20);
        release(&mut permit, 30);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[tokio::test]
    async fn draining_waits_for_everything() {
        let budget = Arc::new(ByteBudget::new(100));
        let permit = budget.try_acquire(1).unwrap();
        let draining = tokio::spawn({
            let budget = Arc::clone(&budget);
            async move { budget.drained().await }
        });
        tokio::task::yield_now().await;
        assert!(!draining.is_finished());
        drop(permit);
        let drained = draining.await.unwrap();
        assert!(budget.try_acquire(1).is_none());
        drop(drained);
    }
}
