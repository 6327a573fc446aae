//! Deduplication: remembers the sends and other commands that were sequenced lately, so that repeats of them emit nothing (PROTOCOL S1, S3, S15).

mod hash;
mod indexed_queue;
mod keyed;

use std::{collections::BTreeMap, sync::LazyLock};

use hashbrown::{DefaultHashBuilder, HashMap};
use schemas::{
    AppliedCommand, Change, ClientMsgId, CommandId, CommandScope, HashKey, Mid, Recipient,
    TimestampMs, UserId,
    command::{Command, SendMessage},
    event::{Message, Rules},
};

pub(super) use self::{
    indexed_queue::DEDUP_MAX_ENTRIES,
    keyed::{KeyedEntry, MAX_WINDOW_MS},
};
use self::{
    indexed_queue::{Entry, IndexedQueue},
    keyed::KeyedDedup,
};
use super::chunked_queue::ChunkedQueue;

/// The fields that a repeat shares with the original.
#[derive(Clone, Copy)]
pub(super) struct SendFields<'a> {
    srcid: UserId,
    to: Recipient,
    client_msg_id: &'a ClientMsgId,
    msg: &'a str,
}

/// The fields that a repeat of a command other than a send shares with the original.
#[derive(Clone, Copy)]
pub(super) struct CommandFields<'a> {
    pub(super) scope: CommandScope,
    pub(super) id: RepeatId<'a>,
    /// A hash of what the command asks for; 0 if the id already says what that is.
    pub(super) content: u32,
}

/// How a repeat is recognised within its scope.
#[derive(Clone, Copy)]
pub(super) enum RepeatId<'a> {
    /// The command's id.
    Given(&'a CommandId),
    /// Hiding this message is the same command whatever its id.
    Hide(Mid),
    /// Clearing a group's history up to this message is likewise the same command.
    Clear(Mid),
}

impl<'a> CommandFields<'a> {
    pub(super) fn new(scope: CommandScope, command: &'a AppliedCommand) -> Self {
        Self {
            scope,
            id: RepeatId::Given(&command.id),
            content: command.content,
        }
    }

    /// The fields of a change to what one user sees; `None` if a repeat of it is found in another way (PROTOCOL C5).
    pub(super) fn of_view(by: UserId, to: Recipient, mid: Mid, change: &Change) -> Option<Self> {
        let id = match (change, to) {
            (Change::Hide, _) => RepeatId::Hide(mid),
            (Change::Clear, Recipient::Group(_)) => RepeatId::Clear(mid),
            _ => return None,
        };
        Some(Self {
            scope: CommandScope {
                author: Some(by),
                to: Some(to),
            },
            id,
            content: 0,
        })
    }
}

/// A different number for each user and each group.
fn number_of(to: Recipient) -> u64 {
    match to {
        Recipient::User(uid) => uid.get().cast_unsigned(),
        Recipient::Group(gid) => gid.get().cast_unsigned() | 1 << 63,
    }
}

impl<'a> From<&'a SendMessage> for SendFields<'a> {
    fn from(send: &'a SendMessage) -> Self {
        Self {
            srcid: send.srcid,
            to: send.to,
            client_msg_id: &send.client_msg_id,
            msg: &send.msg,
        }
    }
}

impl<'a> From<&'a Message> for SendFields<'a> {
    fn from(message: &'a Message) -> Self {
        Self {
            srcid: message.srcid,
            to: message.to,
            client_msg_id: &message.client_msg_id,
            msg: &message.msg,
        }
    }
}

/// How a send with a known client_msg_id, or another command with a known id, compares with the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// With the same content.
    Repeat,
    /// With other content.
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

    /// Anybody can compute the key, so this process hashes the key again with its own random seed.
    fn hash(key: &Self::Key) -> u64 {
        static SEEDED: LazyLock<DefaultHashBuilder> = LazyLock::new(DefaultHashBuilder::default);
        std::hash::BuildHasher::hash_one(&*SEEDED, key)
    }
}

/// Whether a repeat at `now` of what came at `ts` is still recognised.
fn is_live(ts: TimestampMs, now: TimestampMs, window_ms: i64) -> bool {
    now.0.saturating_sub(ts.0) <= window_ms
}

/// The sends and other commands remembered.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Dedup {
    unkeyed: IndexedQueue<UnkeyedEntry>,
    /// All its entries are younger than the unkeyed ones.
    keyed: KeyedDedup,
}

/// What a snapshot holds of a [`Dedup`]; the sends in log order.
#[derive(Clone, Debug, Default)]
pub(super) struct DedupEntries {
    pub(super) unkeyed: ChunkedQueue<UnkeyedEntry>,
    pub(super) keyed: ChunkedQueue<KeyedEntry>,
    /// How many keyed entries each sender has added in this round.
    pub(super) round: HashMap<UserId, u32>,
    /// Each sender's entries beyond the shared ones.
    pub(super) own: BTreeMap<UserId, ChunkedQueue<KeyedEntry>>,
}

impl DedupEntries {
    pub(super) fn len(&self) -> usize {
        let own = self.own.values().map(ChunkedQueue::len).sum::<usize>();
        self.unkeyed.len() + self.keyed.len() + own
    }
}

impl From<DedupEntries> for Dedup {
    fn from(entries: DedupEntries) -> Self {
        Self {
            unkeyed: entries.unkeyed.into(),
            keyed: KeyedDedup::new(entries.keyed, entries.round, entries.own),
        }
    }
}

impl Dedup {
    /// A copy that shares the sends.
    pub(super) fn entries(&self) -> DedupEntries {
        let own = self.keyed.own();
        DedupEntries {
            unkeyed: self.unkeyed.entries().clone(),
            keyed: self.keyed.shared().clone(),
            round: self.keyed.round().clone(),
            own: own.map(|(sender, own)| (sender, own.clone())).collect(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.unkeyed.entries().len() + self.keyed.len()
    }

    /// Whether a send is known at `now`, in a state with this clock. An expired entry does not count, even if it is not evicted yet.
    pub(super) fn find(
        &self,
        send: SendFields<'_>,
        clock: TimestampMs,
        now: TimestampMs,
        rules: &Rules,
    ) -> Option<Known> {
        let keyed = rules.hash_key.as_ref();
        let found = keyed
            .and_then(|key| self.keyed.find(key, send, clock))
            .or_else(|| self.find_unkeyed(send));
        known(found, now, rules)
    }

    /// Whether a command other than a send is known at `now`, in a state with this clock.
    pub(super) fn find_command(
        &self,
        command: CommandFields<'_>,
        clock: TimestampMs,
        now: TimestampMs,
        rules: &Rules,
    ) -> Option<Known> {
        let key = rules.hash_key.as_ref()?;
        known(self.keyed.find_command(key, command, clock), now, rules)
    }

    /// Adds the command that was sequenced at `now`. Without a hash key nothing is remembered; every version with ids has one.
    pub(super) fn insert_command(
        &mut self,
        command: CommandFields<'_>,
        now: TimestampMs,
        rules: &Rules,
    ) {
        if let Some(key) = &rules.hash_key {
            self.keyed.insert_command(key, command, now, rules);
        }
    }

    fn find_unkeyed(&self, send: SendFields<'_>) -> Option<(TimestampMs, bool)> {
        if self.unkeyed.entries().len() == 0 {
            return None;
        }
        let entry = self.unkeyed.get(&hash::unkeyed(send))?;
        Some((entry.ts, entry.payload_hash == hash::unkeyed_payload(send)))
    }

    /// Adds the send that was sequenced at `now`.
    pub(super) fn insert(
        &mut self,
        send: SendFields<'_>,
        mid: Mid,
        now: TimestampMs,
        rules: &Rules,
    ) {
        match &rules.hash_key {
            Some(key) => self.keyed.insert(key, send, now, rules),
            None => self.unkeyed.insert(UnkeyedEntry {
                key: hash::unkeyed(send),
                payload_hash: hash::unkeyed_payload(send),
                ts: now,
                mid,
            }),
        }
    }

    /// Evicts the entries that are expired at `now`, and the oldest above the maximum number. `clock` is that of the state so far.
    pub(super) fn evict(&mut self, clock: TimestampMs, now: TimestampMs, rules: &Rules) {
        let of_unkeyed = max_entries(rules).saturating_sub(self.keyed.shared().len());
        self.unkeyed.evict(of_unkeyed, |entry| {
            is_live(entry.ts, now, rules.dedup_window_ms)
        });
        self.keyed.evict(clock, now, rules);
    }
}

/// What a live entry, found with its time, makes of a command: a repeat if the content is the same, otherwise a conflict.
fn known(found: Option<(TimestampMs, bool)>, now: TimestampMs, rules: &Rules) -> Option<Known> {
    let (_, same) = found.filter(|(ts, _)| is_live(*ts, now, rules.dedup_window_ms))?;
    Some(if same { Known::Repeat } else { Known::Conflict })
}

/// A hash of what a command with this id asks for.
pub(super) fn content_hash(key: &HashKey, command: &Command, id: &CommandId) -> u32 {
    let id = RepeatId::Given(id);
    hash::KeyedId::of_command(key, command.scope(), id).content_hash(&command.content())
}

fn max_entries(rules: &Rules) -> usize {
    rules.dedup_max_entries.clamp(0, *DEDUP_MAX_ENTRIES.end()) as usize
}

#[cfg(test)]
mod tests;
