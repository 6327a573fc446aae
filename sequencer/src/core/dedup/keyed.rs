//! The sends that were sequenced from rule version 2 on, and other commands from rule version 4 on. Heavy sending shortens only the sender's own
//! window.
//!
//! The entries that all senders share are added in rounds. A round adds a sixty-fourth of `dedup_max_entries`, and one sender adds at most a
//! sixty-fourth of `dedup_max_per_sender` in it. A sender's further entries in that round are kept separately.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use schemas::{HashKey, TimestampMs, UserId, event::Rules};

use super::{
    CommandFields, SendFields, hash,
    indexed_queue::{Entry, IndexedQueue},
    is_live, max_entries,
};
use crate::core::chunked_queue::ChunkedQueue;

/// The longest dedup window: 49 days.
pub(in crate::core) const MAX_WINDOW_MS: i64 = 49 * 24 * 3600 * 1000;

const ROUNDS: i64 = 64;

/// A send that was sequenced under a later rule version, or another command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core) struct KeyedEntry {
    key: [u32; 3],
    payload_hash: u32,
    /// The low bits of its log time. The other bits follow from the state's clock, since no entry is more than 49 days and a second older than that clock.
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
    pub(in crate::core) const BYTES: usize = 20;

    pub(in crate::core) fn to_bytes(self) -> [u8; Self::BYTES] {
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

    pub(in crate::core) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let word = |i: usize| u32::from_le_bytes(bytes.as_chunks().0[i]);
        Self {
            key: [word(0), word(1), word(2)],
            payload_hash: word(3),
            ts: word(4),
        }
    }

    fn is_live(&self, clock: TimestampMs, now: TimestampMs, rules: &Rules) -> bool {
        is_live(
            self.ts(clock),
            now,
            rules.dedup_window_ms.min(MAX_WINDOW_MS),
        )
    }

    /// The entry's log time, in a state with this clock.
    fn ts(&self, clock: TimestampMs) -> TimestampMs {
        let age = (clock.0 as u32).wrapping_sub(self.ts);
        TimestampMs(clock.0.saturating_sub(age.into()))
    }
}

/// The sends and other commands remembered.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct KeyedDedup {
    shared: IndexedQueue<KeyedEntry>,
    /// How many entries each sender has added to the shared ones in this round.
    round: HashMap<UserId, u32>,
    /// The number of entries in this round: the sum of `round`.
    added_in_round: i64,
    /// Each sender's entries beyond the shared ones. Expired entries are removed with the first event of the next second of log time.
    own: BTreeMap<UserId, IndexedQueue<KeyedEntry>>,
}

impl KeyedDedup {
    pub(super) fn new(
        shared: ChunkedQueue<KeyedEntry>,
        round: HashMap<UserId, u32>,
        own: BTreeMap<UserId, ChunkedQueue<KeyedEntry>>,
    ) -> Self {
        Self {
            shared: shared.into(),
            added_in_round: round.values().map(|count| i64::from(*count)).sum(),
            round,
            own: own
                .into_iter()
                .map(|(sender, own)| (sender, own.into()))
                .collect(),
        }
    }

    pub(super) fn shared(&self) -> &ChunkedQueue<KeyedEntry> {
        self.shared.entries()
    }

    pub(super) fn round(&self) -> &HashMap<UserId, u32> {
        &self.round
    }

    pub(super) fn own(&self) -> impl Iterator<Item = (UserId, &ChunkedQueue<KeyedEntry>)> {
        self.own
            .iter()
            .map(|(sender, own)| (*sender, own.entries()))
    }

    pub(super) fn len(&self) -> usize {
        self.shared().len() + self.own().map(|(_, own)| own.len()).sum::<usize>()
    }

    /// The time of the entry of this send, and whether that entry has the same content as the send.
    pub(super) fn find(
        &self,
        key: &HashKey,
        send: SendFields<'_>,
        clock: TimestampMs,
    ) -> Option<(TimestampMs, bool)> {
        let id = hash::KeyedId::new(key, send);
        let entry = self.entry(Some(send.srcid), id.key())?;
        Some((
            entry.ts(clock),
            entry.payload_hash == id.payload_hash(send.msg),
        ))
    }

    /// As [`Self::find`], for a command other than a send.
    pub(super) fn find_command(
        &self,
        key: &HashKey,
        command: CommandFields<'_>,
        clock: TimestampMs,
    ) -> Option<(TimestampMs, bool)> {
        let id = hash::KeyedId::of_command(key, command.scope, command.id);
        let entry = self.entry(command.scope.author, id.key())?;
        Some((entry.ts(clock), entry.payload_hash == command.content))
    }

    fn entry(&self, author: Option<UserId>, key: [u32; 3]) -> Option<&KeyedEntry> {
        let own = || self.own.get(&author?)?.get(&key);
        self.shared.get(&key).or_else(own)
    }

    pub(super) fn insert(
        &mut self,
        key: &HashKey,
        send: SendFields<'_>,
        now: TimestampMs,
        rules: &Rules,
    ) {
        let id = hash::KeyedId::new(key, send);
        let entry = KeyedEntry {
            key: id.key(),
            payload_hash: id.payload_hash(send.msg),
            ts: now.0 as u32,
        };
        self.add(Some(send.srcid), entry, now, rules);
    }

    pub(super) fn insert_command(
        &mut self,
        key: &HashKey,
        command: CommandFields<'_>,
        now: TimestampMs,
        rules: &Rules,
    ) {
        let entry = KeyedEntry {
            key: hash::KeyedId::of_command(key, command.scope, command.id).key(),
            payload_hash: command.content,
            ts: now.0 as u32,
        };
        self.add(command.scope.author, entry, now, rules);
    }

    /// A command without an author, as an operator's, needs no share: its entry is added to the shared ones.
    fn add(&mut self, author: Option<UserId>, entry: KeyedEntry, now: TimestampMs, rules: &Rules) {
        let Some(author) = author.filter(|author| !self.try_take_share(*author, rules)) else {
            self.shared.insert(entry);
            return;
        };
        let own = self.own.entry(author).or_default();
        // An expired entry with this key would block the new one.
        own.evict(usize::MAX, |entry| entry.is_live(now, now, rules));
        own.insert(entry);
        let senders = self.own.len();
        let own = self.own.entry(author).or_default();
        own.evict(max_own(rules, senders), |_| true);
    }

    /// Takes a place of the sender among the shared entries of this round, if one is left.
    fn try_take_share(&mut self, sender: UserId, rules: &Rules) -> bool {
        let (all, of_one) = (rules.dedup_max_entries, rules.dedup_max_per_sender);
        if of_one >= all {
            return true;
        }
        if self.added_in_round >= all / ROUNDS {
            self.round.clear();
            self.added_in_round = 0;
        }
        let count = self.round.entry(sender).or_default();
        if i64::from(*count) >= (of_one / ROUNDS).max(1) {
            return false;
        }
        *count += 1;
        self.added_in_round += 1;
        true
    }

    pub(super) fn evict(&mut self, clock: TimestampMs, now: TimestampMs, rules: &Rules) {
        let is_live = |entry: &KeyedEntry| entry.is_live(clock, now, rules);
        self.shared.evict(max_entries(rules), is_live);
        let [before, after] = [clock, now].map(|time| time.0.div_euclid(1000));
        if before != after {
            self.own.retain(|_, own| {
                own.evict(usize::MAX, is_live);
                own.entries().len() > 0
            });
        }
    }
}

/// The maximum number of a sender's own entries if `senders` senders have some (PROTOCOL S3 gives the total).
fn max_own(rules: &Rules, senders: usize) -> usize {
    let of_one = rules.dedup_max_per_sender.max(1) as usize;
    of_one.min((max_entries(rules) / senders).max(1))
}
