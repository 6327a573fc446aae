//! Deduplication: remembers the sends that were sequenced lately, so that repeats of them emit nothing (PROTOCOL S1, S3).

mod hash;
mod window;

use std::sync::LazyLock;

use hashbrown::DefaultHashBuilder;
use schemas::{
    ClientMsgId, HashKey, Mid, TimestampMs, UserId,
    command::SendMessage,
    event::{Message, Rules},
};

use self::window::{Entry, Window};
use super::{chunked_queue::ChunkedQueue, control::DEDUP_MAX_ENTRIES};

/// The fields that a repeat has in common with what it repeats.
#[derive(Clone, Copy)]
pub(super) struct Send<'a> {
    srcid: UserId,
    destid: UserId,
    client_msg_id: &'a ClientMsgId,
    msg: &'a str,
}

impl<'a> From<&'a SendMessage> for Send<'a> {
    fn from(send: &'a SendMessage) -> Self {
        Self {
            srcid: send.srcid,
            destid: send.destid,
            client_msg_id: &send.client_msg_id,
            msg: &send.msg,
        }
    }
}

impl<'a> From<&'a Message> for Send<'a> {
    fn from(message: &'a Message) -> Self {
        Self {
            srcid: message.srcid,
            destid: message.destid,
            client_msg_id: &message.client_msg_id,
            msg: &message.msg,
        }
    }
}

/// A send whose client_msg_id is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// With the same text.
    Repeat,
    /// With another text.
    Conflict,
}

/// A send that was sequenced under rule version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnkeyedEntry {
    pub(super) key: [u8; 16],
    pub(super) payload_hash: u64,
    /// Log time of the message.
    pub(super) ts: TimestampMs,
    pub(super) mid: Mid,
}

impl Entry for UnkeyedEntry {
    type Key = [u8; 16];

    fn key(&self) -> Self::Key {
        self.key
    }

    /// Anybody can compute the key, so this process hashes it once more with a seed of its own.
    fn hash(key: &Self::Key) -> u64 {
        static SEEDED: LazyLock<DefaultHashBuilder> = LazyLock::new(DefaultHashBuilder::default);
        std::hash::BuildHasher::hash_one(&*SEEDED, key)
    }
}

/// A send that was sequenced under a later rule version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyedEntry {
    key: [u32; 3],
    payload_hash: u32,
    /// The low bits of its log time. The others follow, since no entry is older than [`Self::MAX_AGE_MS`] at the clock of its state.
    ts: u32,
}

impl Entry for KeyedEntry {
    type Key = [u32; 3];

    fn key(&self) -> Self::Key {
        self.key
    }

    fn hash(key: &Self::Key) -> u64 {
        u64::from(key[1]) << 32 | u64::from(key[0])
    }
}

impl KeyedEntry {
    /// The size of an entry in a snapshot.
    pub(super) const BYTES: usize = 20;
    /// The longest dedup window from rule version 2 on: 49 days.
    pub(super) const MAX_AGE_MS: i64 = 49 * 24 * 3600 * 1000;

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let [a, b, c] = self.key;
        let mut bytes = [0; Self::BYTES];
        for (place, word) in
            bytes
                .as_chunks_mut()
                .0
                .iter_mut()
                .zip([a, b, c, self.payload_hash, self.ts])
        {
            *place = word.to_le_bytes();
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let word = |i: usize| u32::from_le_bytes(bytes.as_chunks().0[i]);
        Self {
            key: [word(0), word(1), word(2)],
            payload_hash: word(3),
            ts: word(4),
        }
    }

    /// Its log time, in a state with this clock.
    fn ts(&self, clock: TimestampMs) -> TimestampMs {
        let age = (clock.0 as u32).wrapping_sub(self.ts);
        TimestampMs(clock.0.saturating_sub(age.into()))
    }
}

/// Whether a repeat at `now` of a send at `ts` is still recognised.
fn is_live(ts: TimestampMs, now: TimestampMs, window_ms: i64) -> bool {
    now.0.saturating_sub(ts.0) <= window_ms
}

/// The sends remembered.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Dedup {
    unkeyed: Window<UnkeyedEntry>,
    /// All younger than the unkeyed ones.
    keyed: Window<KeyedEntry>,
}

impl Dedup {
    pub(super) fn new(
        unkeyed: impl IntoIterator<Item = UnkeyedEntry>,
        keyed: impl IntoIterator<Item = KeyedEntry>,
    ) -> Self {
        Self {
            unkeyed: unkeyed.into_iter().collect(),
            keyed: keyed.into_iter().collect(),
        }
    }

    /// In log order. A clone of them shares what is there.
    pub(super) fn unkeyed(&self) -> &ChunkedQueue<UnkeyedEntry> {
        self.unkeyed.entries()
    }

    /// In log order. A clone of them shares what is there.
    pub(super) fn keyed(&self) -> &ChunkedQueue<KeyedEntry> {
        self.keyed.entries()
    }

    pub(super) fn len(&self) -> usize {
        self.unkeyed().len() + self.keyed().len()
    }

    /// Whether a send is known at `now`, in a state with this clock. An entry that is expired does not count, evicted or not.
    pub(super) fn find(
        &self,
        send: Send<'_>,
        clock: TimestampMs,
        now: TimestampMs,
        rules: &Rules,
    ) -> Option<Known> {
        let known = match &rules.hash_key {
            Some(key) => self
                .find_keyed(key, send)
                .map(|(entry, same)| (entry.ts(clock), same)),
            None => None,
        };
        let (ts, same) = known.or_else(|| self.find_unkeyed(send))?;
        is_live(ts, now, rules.dedup_window_ms).then_some(if same {
            Known::Repeat
        } else {
            Known::Conflict
        })
    }

    /// The entry of a send, and whether their contents are equal.
    fn find_keyed(&self, key: &HashKey, send: Send<'_>) -> Option<(&KeyedEntry, bool)> {
        let id = hash::KeyedId::new(key, send);
        let entry = self.keyed.get(&id.key())?;
        Some((entry, entry.payload_hash == id.payload_hash(send.msg)))
    }

    fn find_unkeyed(&self, send: Send<'_>) -> Option<(TimestampMs, bool)> {
        if self.unkeyed().len() == 0 {
            return None;
        }
        let entry = self.unkeyed.get(&hash::unkeyed(send))?;
        Some((entry.ts, entry.payload_hash == hash::unkeyed_payload(send)))
    }

    /// Adds the send that was sequenced at `now`.
    pub(super) fn insert(&mut self, send: Send<'_>, mid: Mid, now: TimestampMs, rules: &Rules) {
        match &rules.hash_key {
            Some(key) => {
                let id = hash::KeyedId::new(key, send);
                self.keyed.insert(KeyedEntry {
                    key: id.key(),
                    payload_hash: id.payload_hash(send.msg),
                    ts: now.0 as u32,
                });
            }
            None => self.unkeyed.insert(UnkeyedEntry {
                key: hash::unkeyed(send),
                payload_hash: hash::unkeyed_payload(send),
                ts: now,
                mid,
            }),
        }
    }

    /// Evicts what is expired at `now`, and the oldest above the maximum number. `clock` is that of the state so far.
    pub(super) fn evict(&mut self, clock: TimestampMs, now: TimestampMs, rules: &Rules) {
        let most = rules.dedup_max_entries.clamp(0, *DEDUP_MAX_ENTRIES.end()) as usize;
        let window_ms = rules.dedup_window_ms;
        let of_unkeyed = most.saturating_sub(self.keyed().len());
        self.unkeyed
            .evict(of_unkeyed, |entry| is_live(entry.ts, now, window_ms));
        let window_ms = window_ms.min(KeyedEntry::MAX_AGE_MS);
        self.keyed
            .evict(most, |entry| is_live(entry.ts(clock), now, window_ms));
    }
}

#[cfg(test)]
mod tests;
