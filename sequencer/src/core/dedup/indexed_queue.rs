//! The newest entries, found by their keys.

use std::{fmt, ops::RangeInclusive};

use crate::core::chunked_queue::ChunkedQueue;

/// An entry of a [`IndexedQueue`].
pub(super) trait Entry: Copy + PartialEq + fmt::Debug {
    type Key: Copy + Eq;

    fn key(&self) -> Self::Key;

    /// The hash of a key: evenly distributed in its high and in its low bits, also for keys that a client chose.
    fn hash(key: &Self::Key) -> u64;
}

/// A queue of entries with an index by key.
///
/// The index is a table with open addressing and linear probing. A slot is empty (0) or has the number of an entry, counted from the first entry ever
/// and cut to 24 bits, and 7 bits of the hash of its key. A slot whose entry left the queue is free: its number is no longer one of the queue's. So a
/// removal does not touch the table. Only an empty slot ends a search.
#[derive(Clone)]
pub(super) struct IndexedQueue<E> {
    entries: ChunkedQueue<E>,
    /// The number of the oldest entry.
    first: u32,
    slots: Box<[u32]>,
    /// How many slots are not empty.
    used: usize,
}

const NUMBERS: u32 = 1 << 24;
/// If more of the slots are used, the table is built again with the entries that are in the queue then. So between 45 and 80 percent of the slots are
/// used, and an entry takes 5 to 8.9 bytes of the table.
const MAX_USED_PERCENT: usize = 80;
const NEW_TABLE_PERCENT: usize = 45;
/// How many entries a partition may have. Ten million are about 300 MB; the senders' own entries take at most a few times as much.
pub(in crate::core) const DEDUP_MAX_ENTRIES: RangeInclusive<i64> = 1..=10_000_000;
const _: () = assert!(*DEDUP_MAX_ENTRIES.end() < NUMBERS as i64);

impl<E> Default for IndexedQueue<E> {
    fn default() -> Self {
        Self {
            entries: ChunkedQueue::default(),
            first: 0,
            slots: Box::default(),
            used: 0,
        }
    }
}

/// The number in a slot, and the part of the hash.
fn slot(number: u32, hash: u64) -> u32 {
    ((number % NUMBERS) << 8) | u32::from(tag(hash))
}

/// Never 0, so that a used slot is never 0.
fn tag(hash: u64) -> u8 {
    hash as u8 | 1
}

impl<E: Entry> IndexedQueue<E> {
    /// The entries in the order in which they came.
    pub(super) fn entries(&self) -> &ChunkedQueue<E> {
        &self.entries
    }

    /// The entry of a key.
    pub(super) fn get(&self, key: &E::Key) -> Option<&E> {
        match self.search(key) {
            Search::Found(entry) => Some(entry),
            Search::Absent { .. } => None,
        }
    }

    /// Adds an entry. A known key keeps its entry; the sequencer never writes such an event.
    pub(super) fn insert(&mut self, entry: E) {
        if (self.used + 1) * 100 > self.slots.len() * MAX_USED_PERCENT {
            self.rebuild();
        }
        let key = entry.key();
        let Search::Absent { free } = self.search(&key) else {
            return;
        };
        let number = self.first + self.entries.len() as u32;
        self.used += usize::from(self.slots[free] == 0);
        self.slots[free] = slot(number, E::hash(&key));
        self.entries.push_back(entry);
    }

    /// Removes the oldest entries while there are more than `most` or the oldest is not live.
    pub(super) fn evict(&mut self, most: usize, is_live: impl Fn(&E) -> bool) {
        while let Some(oldest) = self.entries.front() {
            if is_live(oldest) && self.entries.len() <= most {
                return;
            }
            self.entries.pop_front();
            self.first = (self.first + 1) % NUMBERS;
        }
    }

    fn search(&self, key: &E::Key) -> Search<'_, E> {
        let (hash, len) = (E::hash(key), self.entries.len());
        let mut free = None;
        let mut at = self.home(hash);
        while let Some(&slot) = self.slots.get(at).filter(|slot| **slot != 0) {
            let position = self.position(slot);
            if position >= len {
                free = free.or(Some(at));
            } else if slot as u8 == tag(hash)
                && let Some(entry) = self.entries.get(position)
                && entry.key() == *key
            {
                return Search::Found(entry);
            }
            at = self.after(at);
        }
        Search::Absent {
            free: free.unwrap_or(at),
        }
    }

    /// Where the search for a hash begins.
    fn home(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.slots.len() as u128) >> 64) as usize
    }

    fn after(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() {
            0
        } else {
            at + 1
        }
    }

    /// The position of a slot's entry in the queue. It is above the end of the queue if the entry was removed.
    fn position(&self, slot: u32) -> usize {
        ((slot >> 8).wrapping_sub(self.first) % NUMBERS) as usize
    }

    fn rebuild(&mut self) {
        let needed = (self.entries.len() + 1) * 100 / NEW_TABLE_PERCENT;
        self.slots = vec![0; needed + 1].into();
        self.used = self.entries.len();
        for (entry, number) in self.entries.iter().zip(self.first..) {
            let hash = E::hash(&entry.key());
            let mut at = self.home(hash);
            while self.slots[at] != 0 {
                at = self.after(at);
            }
            self.slots[at] = slot(number, hash);
        }
    }
}

enum Search<'a, E> {
    Found(&'a E),
    /// The key belongs in the slot `free`.
    Absent {
        free: usize,
    },
}

impl<E: Entry> From<ChunkedQueue<E>> for IndexedQueue<E> {
    /// The entries must have different keys.
    fn from(entries: ChunkedQueue<E>) -> Self {
        let mut queue = Self {
            entries,
            ..Self::default()
        };
        queue.rebuild();
        queue
    }
}

impl<E: Entry> PartialEq for IndexedQueue<E> {
    fn eq(&self, other: &Self) -> bool {
        self.entries.iter().eq(other.entries.iter())
    }
}

impl<E: Entry> fmt::Debug for IndexedQueue<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// An entry whose hash is its key, so that a test can choose the slot.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Plain(u64);

    impl Entry for Plain {
        type Key = u64;

        fn key(&self) -> u64 {
            self.0
        }

        fn hash(key: &u64) -> u64 {
            *key
        }
    }

    fn spread(n: u64) -> u64 {
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    proptest! {
        /// Keys that share their slots, their tags, or both.
        #[test]
        fn it_is_a_queue_with_an_index(
            first in prop::sample::select(&[0, NUMBERS - 60][..]),
            turns in prop::collection::vec((prop::collection::vec((0..40_u64, 0..3_u64), 0..60), 0..50_usize), 0..8),
        ) {
            let mut queue = IndexedQueue { first, ..IndexedQueue::default() };
            let mut plain = VecDeque::new();
            for (keys, most) in turns {
                for key in keys.into_iter().map(|(place, tag)| place << 58 | tag << 1) {
                    queue.insert(Plain(key));
                    if !plain.contains(&Plain(key)) {
                        plain.push_back(Plain(key));
                    }
                }
                queue.evict(most, |_| true);
                plain.drain(..plain.len().saturating_sub(most));
                prop_assert!(queue.entries().iter().eq(&plain));
                for key in (0..40).flat_map(|place| (0..3).map(move |tag| place << 58 | tag << 1)) {
                    prop_assert_eq!(queue.get(&key).copied(), plain.iter().find(|e| e.0 == key).copied());
                }
                let mut entries = ChunkedQueue::default();
                plain.iter().for_each(|entry| entries.push_back(*entry));
                let restored = IndexedQueue::from(entries);
                prop_assert_eq!(&restored, &queue);
            }
        }
    }

    /// The numbers wrap around more than once, and free slots come to stand for other entries.
    #[test]
    fn the_table_stays_as_it_is_while_entries_come_and_go() {
        const MOST: usize = 3_000;
        let mut queue = IndexedQueue {
            first: NUMBERS - 5,
            ..IndexedQueue::default()
        };
        for n in 0..NUMBERS.into() {
            queue.insert(Plain(spread(n)));
            queue.evict(MOST, |_| true);
            let bytes = queue.slots.len() * size_of::<u32>();
            assert!(
                n < 100 || bytes <= 9 * queue.entries().len() + 9,
                "{n}: {bytes}"
            );
        }
        for n in 0..MOST as u64 {
            let newest = u64::from(NUMBERS) - 1 - n;
            assert!(queue.get(&spread(newest)).is_some());
            assert!(queue.get(&spread(newest - MOST as u64)).is_none());
        }
    }
}
