//! Deduplication: remembers the sends that were sequenced lately, so that repeats of them emit nothing (PROTOCOL S1, S3).

use std::{hash::BuildHasher as _, mem};

use hashbrown::{DefaultHashBuilder, HashTable};
use schemas::{ClientMsgId, DirectConversation, Mid, TimestampMs, UserId, event::Rules};

use super::chunked_queue::ChunkedQueue;

/// BLAKE3 over (conversation, sender, client_msg_id), cut to 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct DedupKey(pub(super) [u8; 16]);

impl DedupKey {
    pub(super) fn new(
        conversation: DirectConversation,
        sender: UserId,
        client_msg_id: &ClientMsgId,
    ) -> Self {
        // All but the last have a fixed length, so that different triples have different encodings.
        let [lo, hi] = [conversation.lo(), conversation.hi()].map(|user| user.get().to_le_bytes());
        let sender = sender.get().to_le_bytes();
        let id = client_msg_id.as_str().as_bytes();
        Self(hash(&[&lo, &hi, &sender, id]))
    }
}

/// A hash over what must be equal in a repeat. It covers the fields, not their encoding, which may differ for equal fields.
pub(super) fn payload_hash(srcid: UserId, destid: UserId, msg: &str) -> u64 {
    let [srcid, destid] = [srcid, destid].map(|user| user.get().to_le_bytes());
    u64::from_le_bytes(hash(&[&srcid, &destid, msg.as_bytes()]))
}

/// The first bytes, at most 32, of BLAKE3 over the pieces. Short pieces are copied together first: one call of the hash costs half as much as
/// one for each piece.
fn hash<const N: usize>(pieces: &[&[u8]]) -> [u8; N] {
    const SHORT: usize = 512;
    let mut gathered = [0; SHORT];
    let mut rest = gathered.as_mut_slice();
    for piece in pieces {
        let Some((place, behind)) = mem::take(&mut rest).split_at_mut_checked(piece.len()) else {
            let mut hasher = blake3::Hasher::new();
            for piece in pieces {
                hasher.update(piece);
            }
            return cut(&hasher.finalize());
        };
        place.copy_from_slice(piece);
        rest = behind;
    }
    let length = SHORT - rest.len();
    cut(&blake3::hash(&gathered[..length]))
}

fn cut<const N: usize>(hash: &blake3::Hash) -> [u8; N] {
    std::array::from_fn(|i| hash.as_bytes()[i])
}

/// One sequenced send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: DedupKey,
    pub(super) payload_hash: u64,
    /// Log time of the message.
    pub(super) ts: TimestampMs,
    pub(super) mid: Mid,
}

impl Entry {
    /// Whether a repeat at `ts` is still recognised.
    pub(super) fn is_live(&self, ts: TimestampMs, window_ms: i64) -> bool {
        ts.0.saturating_sub(self.ts.0) <= window_ms
    }
}

/// The sends remembered, in log order, and an index into them by key.
#[derive(Clone, Default)]
pub(super) struct Dedup {
    entries: ChunkedQueue<Entry>,
    /// Numbers of entries. They are counted from the first entry ever and wrap around at 32 bits; entries present at the same time have
    /// different numbers.
    index: HashTable<u32>,
    /// The number of the oldest entry.
    first: u32,
    hasher: DefaultHashBuilder,
}

impl Dedup {
    /// The entry of a key. It may be expired and not evicted yet.
    pub(super) fn get(&self, key: &DedupKey) -> Option<&Entry> {
        let number = self.index.find(self.hasher.hash_one(key), |number| {
            self.entry(*number).key == *key
        })?;
        Some(self.entry(*number))
    }

    /// Adds an entry. A known key keeps its entry; the sequencer never writes such an event.
    pub(super) fn insert(&mut self, entry: Entry) {
        if self.get(&entry.key).is_some() {
            return;
        }
        let number = self.first.wrapping_add(self.entries.len() as u32);
        let hash = self.hasher.hash_one(entry.key);
        self.entries.push_back(entry);
        let Self {
            entries,
            index,
            first,
            hasher,
        } = self;
        index.insert_unique(hash, number, |number| {
            hasher.hash_one(nth(entries, *first, *number).key)
        });
    }

    /// Evicts the entries that are expired at `clock`, and the oldest above the maximum number.
    pub(super) fn evict(&mut self, clock: TimestampMs, rules: &Rules) {
        let most = u32::try_from(rules.dedup_max_entries.max(0)).unwrap_or(u32::MAX) as usize;
        while let Some(oldest) = self.entries.front() {
            if oldest.is_live(clock, rules.dedup_window_ms) && self.entries.len() <= most {
                return;
            }
            self.forget_oldest();
        }
    }

    /// In log order. A clone of them shares what is there.
    pub(super) fn entries(&self) -> &ChunkedQueue<Entry> {
        &self.entries
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.entries.pop_front() else {
            return;
        };
        let number = self.first;
        self.first = self.first.wrapping_add(1);
        if let Ok(slot) = self
            .index
            .find_entry(self.hasher.hash_one(oldest.key), |found| *found == number)
        {
            slot.remove();
        }
    }

    fn entry(&self, number: u32) -> &Entry {
        nth(&self.entries, self.first, number)
    }
}

fn nth(entries: &ChunkedQueue<Entry>, first: u32, number: u32) -> &Entry {
    let entry = entries.get(number.wrapping_sub(first) as usize);
    entry.expect("the index has numbers of what is remembered")
}

impl PartialEq for Dedup {
    fn eq(&self, other: &Self) -> bool {
        self.entries.iter().eq(other.entries.iter())
    }
}

impl std::fmt::Debug for Dedup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.entries.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(n: u8, ts: i64) -> Entry {
        Entry {
            key: DedupKey([n; 16]),
            payload_hash: 0,
            ts: TimestampMs(ts),
            mid: Mid::ZERO,
        }
    }

    fn rules(window: i64, most: i64) -> Rules {
        Rules {
            dedup_window_ms: window,
            dedup_max_entries: most,
            ..Rules::VERSION_1
        }
    }

    #[test]
    fn pieces_are_hashed_as_one() {
        let text = [7_u8; 2_000];
        for lengths in [[0, 0], [8, 100], [8, 504], [8, 505], [513, 0], [600, 900]] {
            let [first, second] = lengths.map(|length| &text[..length]);
            let whole = blake3::hash(&[first, second].concat());
            assert_eq!(
                &hash::<32>(&[first, second]),
                whole.as_bytes(),
                "{lengths:?}"
            );
        }
    }

    #[test]
    fn an_entry_lives_to_the_end_of_its_window() {
        let mut dedup = Dedup::default();
        dedup.insert(entry(1, 100));
        dedup.insert(entry(2, 101));
        dedup.evict(TimestampMs(110), &rules(10, 9));
        assert!(dedup.get(&DedupKey([1; 16])).is_some());
        dedup.evict(TimestampMs(111), &rules(10, 9));
        assert!(dedup.get(&DedupKey([1; 16])).is_none());
        assert!(dedup.get(&DedupKey([2; 16])).is_some());
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let mut dedup = Dedup::default();
        for n in 0..200 {
            dedup.insert(entry(n, 0));
            dedup.evict(TimestampMs(0), &rules(10, 50));
        }
        assert_eq!(dedup.entries().len(), 50);
        for n in 0..200 {
            assert_eq!(dedup.get(&DedupKey([n; 16])).is_some(), n >= 150, "{n}");
        }
    }

    #[test]
    fn numbers_begin_again_after_the_last() {
        let mut dedup = Dedup {
            first: u32::MAX - 20,
            ..Dedup::default()
        };
        for n in 0..100 {
            dedup.insert(entry(n, 0));
            dedup.evict(TimestampMs(0), &rules(10, 50));
        }
        for n in 0..100 {
            assert_eq!(dedup.get(&DedupKey([n; 16])).is_some(), n >= 50, "{n}");
        }
    }

    #[test]
    fn an_entry_costs_what_the_docs_say() {
        assert_eq!(size_of::<Entry>(), 40);
        // A number and the table's control byte.
        assert_eq!(size_of::<u32>() + 1, 5);
    }
}
