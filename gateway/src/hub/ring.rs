//! The newest events of a partition, with an index by user and by group.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use api::HeadFrame;
use schemas::{GroupId, NextOffset, Recipient, UserId};

use super::{
    audience::{Audience, MembershipChange},
    body::author_of,
    head::head_of,
    ring_event::{OVERHEAD_BYTES, RingEvent},
};

/// An event, and for each user or group that it concerns the number of the event before it that concerns them.
pub(super) struct Entry {
    pub(super) offset: i64,
    pub(super) retained: Retained,
    received_ms: u64,
    bytes: usize,
    /// In the order of the keys.
    before: Vec<(Recipient, Option<u64>)>,
}

/// An event, or what is left of one whose author's account had more in the rings than it may.
#[derive(Clone)]
pub(super) enum Retained {
    Whole(Arc<RingEvent>),
    /// How far a group has come by the event, and the event's author.
    Head(HeadFrame, UserId),
    /// Whom the event concerned, and whom it made a member: a device that needs the event has to sync.
    Audience(Audience),
}

impl Entry {
    /// The number of the entry before it that concerns `key`.
    pub(super) fn before(&self, key: Recipient) -> Option<u64> {
        let found = self.before.binary_search_by_key(&key, |(key, _)| *key);
        self.before[found.ok()?].1
    }

    /// Whether it concerns a user or the members of a group.
    pub(super) fn is_of(&self, key: Recipient) -> bool {
        let found = self.before.binary_search_by_key(&key, |(key, _)| *key);
        found.is_ok()
    }

    /// The group whose members it concerns.
    pub(super) fn group(&self) -> Option<GroupId> {
        // Groups come after users.
        match self.before.last()? {
            (Recipient::Group(gid), _) => Some(*gid),
            (Recipient::User(_), _) => None,
        }
    }

    /// The account to which it is charged, and the bytes that it takes.
    pub(super) fn charge(&self) -> Option<(UserId, usize)> {
        Some((author_of(&self.whole()?.event)?, self.bytes))
    }

    pub(super) fn whole(&self) -> Option<&Arc<RingEvent>> {
        match &self.retained {
            Retained::Whole(event) => Some(event),
            Retained::Head(..) | Retained::Audience(_) => None,
        }
    }

    /// What it says about a user's membership of a group, if it is a change of one that names the user.
    pub(super) fn membership_change(&self, uid: UserId) -> Option<(GroupId, MembershipChange)> {
        let audience = match &self.retained {
            Retained::Whole(event) => &event.audience,
            Retained::Audience(audience) => audience,
            Retained::Head(..) => return None,
        };
        Some((audience.group()?, audience.change_for(uid)?))
    }
}

/// All events of a partition from an offset on that concern users, up to where the gateway has read. Entries are numbered in the order in which they
/// came; those of one user or group are a chain from the newest to the oldest.
pub(crate) struct PartitionRing {
    entries: VecDeque<Entry>,
    /// The number of the first entry.
    first: u64,
    newest: HashMap<Recipient, u64>,
    low: NextOffset,
    next: NextOffset,
    bytes: usize,
}

impl PartitionRing {
    /// Begins at an offset.
    pub(crate) fn new(next: NextOffset) -> Self {
        Self {
            entries: VecDeque::new(),
            first: 0,
            newest: HashMap::new(),
            low: next,
            next,
            bytes: 0,
        }
    }

    /// Every event with this offset or a higher one is in the ring.
    pub(crate) fn low(&self) -> NextOffset {
        self.low
    }

    /// The offset of the next event.
    pub(crate) fn next(&self) -> NextOffset {
        self.next
    }

    /// What the events take, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// When the oldest event came.
    pub(crate) fn oldest_ms(&self) -> Option<u64> {
        self.entries.front().map(|entry| entry.received_ms)
    }

    /// The number of the oldest entry, or of the next one if there is none.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Everything below `next` was read.
    pub(crate) fn advance(&mut self, next: NextOffset) {
        self.next = self.next.max(next);
    }

    /// Takes an event that is above all before it; returns its number.
    pub(crate) fn push(&mut self, event: Arc<RingEvent>, now_ms: u64) -> u64 {
        let number = self.first + self.entries.len() as u64;
        self.advance(event.at.next());
        let before = keys(&event.audience)
            .map(|key| (key, self.newest.insert(key, number)))
            .collect();
        self.bytes += event.bytes;
        self.entries.push_back(Entry {
            offset: event.at.offset,
            bytes: event.bytes,
            retained: Retained::Whole(event),
            received_ms: now_ms,
            before,
        });
        number
    }

    /// Drops the oldest event; no stream can begin at or below it any more.
    pub(super) fn drop_oldest(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        for (key, _) in &entry.before {
            if self.newest.get(key) == Some(&self.first) {
                self.newest.remove(key);
            }
        }
        self.first += 1;
        self.low = NextOffset::after(entry.offset);
        self.bytes -= entry.bytes;
        Some(entry)
    }

    /// Goes on at an offset, with nothing from before.
    pub(super) fn begin_again(&mut self, next: NextOffset) {
        (self.low, self.next) = (next, next);
    }

    /// Keeps of an event only where it was, whom it concerned, and how far its group has come by it.
    pub(super) fn strip(&mut self, number: u64) {
        let at = number.checked_sub(self.first);
        let entry = at.and_then(|at| self.entries.get_mut(at as usize));
        let Some(entry) = entry else { return };
        let Some(event) = entry.whole() else { return };
        let author = author_of(&event.event);
        let head = author.and_then(|author| Some((head_of(event, author)?, author)));
        let bytes = OVERHEAD_BYTES + size_of_val(event.audience.changes());
        entry.retained = match head {
            Some((head, author)) => Retained::Head(head, author),
            None => Retained::Audience(event.audience.clone()),
        };
        self.bytes = self.bytes - entry.bytes + bytes;
        entry.bytes = bytes;
    }

    /// The number of the newest entry of a user or a group.
    pub(super) fn newest(&self, key: Recipient) -> Option<u64> {
        self.newest.get(&key).copied()
    }

    /// The entry with this number; `None` if it has left the ring.
    pub(super) fn entry(&self, number: u64) -> Option<&Entry> {
        #[cfg(test)]
        looked_at::count();
        self.entries.get(number.checked_sub(self.first)? as usize)
    }

    /// The number of the first entry from an offset on.
    pub(super) fn number_of(&self, offset: NextOffset) -> u64 {
        let below = |entry: &Entry| entry.offset < offset.get();
        self.first + self.entries.partition_point(below) as u64
    }

    /// The events that concern a user or a group and are whole, the newest first.
    pub(super) fn newest_first(&self, key: Recipient) -> impl Iterator<Item = &Arc<RingEvent>> {
        let mut next = self.newest(key);
        let entries = std::iter::from_fn(move || {
            let entry = self.entry(next?)?;
            next = entry.before(key);
            Some(entry)
        });
        entries.filter_map(Entry::whole)
    }
}

fn keys(audience: &Audience) -> impl Iterator<Item = Recipient> {
    let users = audience.users().map(Recipient::User);
    users.chain(audience.group().map(Recipient::Group))
}

/// How many entries a test has looked at.
#[cfg(test)]
pub(super) mod looked_at {
    use std::cell::Cell;

    thread_local! { static COUNT: Cell<usize> = const { Cell::new(0) } }

    pub(super) fn count() {
        COUNT.set(COUNT.get() + 1);
    }

    /// And starts again at 0.
    pub(in crate::hub) fn take() -> usize {
        COUNT.replace(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::test_events::message;

    fn offsets(ring: &PartitionRing, uid: i64, since: i64) -> Vec<i64> {
        let key = Recipient::User(UserId::try_from(uid).unwrap());
        let offsets = ring.newest_first(key).map(|event| event.at.offset);
        offsets.take_while(|offset| *offset >= since).collect()
    }

    #[test]
    fn events_are_found_by_user_from_an_offset_on() {
        let mut ring = PartitionRing::new(NextOffset::new(5));
        for (offset, from, to) in [(5, 1, 2), (6, 2, 1), (8, 3, 4), (9, 1, 1), (12, 1, 2)] {
            ring.push(message(offset, from, to), 0);
        }
        assert_eq!(offsets(&ring, 1, 0), [12, 9, 6, 5]);
        assert_eq!(offsets(&ring, 1, 6), [12, 9, 6]);
        assert_eq!(offsets(&ring, 4, 0), [8]);
        assert!(offsets(&ring, 5, 0).is_empty());
        assert_eq!((ring.low().get(), ring.next().get()), (5, 13));
    }

    #[test]
    fn what_is_dropped_is_below_the_low_mark_and_not_found() {
        let mut ring = PartitionRing::new(NextOffset::START);
        for offset in 0..4 {
            ring.push(message(offset, 1 + offset % 2, 3), 0);
        }
        let whole = ring.bytes();
        ring.drop_oldest();
        ring.drop_oldest();
        assert_eq!((ring.low().get(), ring.bytes()), (2, whole / 2));
        assert_eq!(offsets(&ring, 3, 0), [3, 2]);
        assert_eq!(offsets(&ring, 1, 0), [2]);
        ring.drop_oldest();
        assert!(offsets(&ring, 1, 0).is_empty());
        assert_eq!(offsets(&ring, 2, 0), [3]);
        ring.drop_oldest();
        ring.drop_oldest();
        assert_eq!((ring.low().get(), ring.bytes()), (4, 0));
        assert!(ring.newest.is_empty());
    }
}
