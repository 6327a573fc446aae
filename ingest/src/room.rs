//! Bounded room, in bytes, for what is under way.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// A share of memory that is taken before something is held and comes back when it is let go.
pub(crate) struct Room {
    free: Semaphore,
    capacity_bytes: u32,
}

/// Room that was taken; dropping it gives it back.
pub(crate) struct Taken {
    room: Arc<Room>,
    bytes: u32,
}

impl Room {
    pub(crate) fn new(capacity_bytes: u32) -> Arc<Self> {
        Arc::new(Self {
            free: Semaphore::new(capacity_bytes as usize),
            capacity_bytes,
        })
    }

    /// Takes room if there is some now.
    pub(crate) fn try_take(self: &Arc<Self>, bytes: u32) -> Option<Taken> {
        self.free.try_acquire_many(bytes).ok()?.forget();
        Some(self.taken(bytes))
    }

    /// Waits for room, first come, first served. More than the capacity never comes.
    pub(crate) async fn take(self: &Arc<Self>, bytes: u32) -> Taken {
        self.free
            .acquire_many(bytes)
            .await
            .expect("the semaphore is never closed")
            .forget();
        self.taken(bytes)
    }

    /// Waits until everything has come back; nothing new is let in meanwhile, nor until the answer is dropped.
    pub(crate) async fn close(self: &Arc<Self>) -> Taken {
        self.take(self.capacity_bytes).await
    }

    pub(crate) fn taken_bytes(&self) -> usize {
        self.capacity_bytes as usize - self.free.available_permits()
    }

    fn taken(self: &Arc<Self>, bytes: u32) -> Taken {
        Taken {
            room: Arc::clone(self),
            bytes,
        }
    }
}

impl Taken {
    /// None of it yet.
    pub(crate) fn nothing(room: &Arc<Room>) -> Self {
        room.taken(0)
    }

    /// How much it is.
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Makes `bytes` of it a part of its own.
    pub(crate) fn split_off(&mut self, bytes: u32) -> Self {
        debug_assert!(bytes <= self.bytes, "only what was taken can be split");
        self.bytes -= bytes;
        self.room.taken(bytes)
    }

    /// Adds what `other` took.
    pub(crate) fn absorb(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Gives back all but `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: u32) {
        drop(self.split_off(self.bytes.saturating_sub(bytes)));
    }

    /// Gives back `bytes` of it.
    pub(crate) fn give_back(&mut self, bytes: u32) {
        drop(self.split_off(bytes));
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.room.free.add_permits(self.bytes as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_byte_is_given_and_no_more() {
        let room = Room::new(100);
        let first = room.try_take(99).unwrap();
        let last = room.try_take(1).unwrap();
        assert!(room.try_take(1).is_none());
        drop(last);
        assert!(room.try_take(2).is_none());
        drop(first);
        assert_eq!(room.taken_bytes(), 0);
    }

    #[test]
    fn parts_come_back_each_once() {
        let room = Room::new(100);
        let mut taken = room.try_take(60).unwrap();
        let mut held = Taken::nothing(&room);
        held.absorb(taken.split_off(20));
        assert_eq!(room.taken_bytes(), 60);
        taken.shrink_to(10);
        assert_eq!(room.taken_bytes(), 30);
        held.give_back(5);
        drop(taken);
        assert_eq!(room.taken_bytes(), 15);
        drop(held);
        assert_eq!(room.taken_bytes(), 0);
    }

    #[tokio::test]
    async fn closing_waits_for_everything() {
        let room = Room::new(100);
        let taken = room.try_take(1).unwrap();
        let closing = tokio::spawn({
            let room = Arc::clone(&room);
            async move { room.close().await }
        });
        tokio::task::yield_now().await;
        assert!(!closing.is_finished());
        drop(taken);
        let closed = closing.await.unwrap();
        assert!(room.try_take(1).is_none());
        drop(closed);
    }
}
