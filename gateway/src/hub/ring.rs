//! The newest events of a partition, with an index by user and by group.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use schemas::{NextOffset, Recipient};

use super::{audience::Audience, ring_event::RingEvent};

/// An event, and for each of those whom it concerns the number of the event before it that does.
struct Entry {
    event: Arc<RingEvent>,
    received_ms: u64,
    before: Vec<(Recipient, Option<u64>)>,
}

/// All events of a partition from an offset on that concern users, up to where the gateway has read. Entries are numbered in the order in which
/// they came; those of one of them are a chain from the newest to the oldest.
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

    /// Everything below `next` was read.
    pub(crate) fn advance(&mut self, next: NextOffset) {
        self.next = self.next.max(next);
    }

    /// Takes an event that is above all before it.
    pub(crate) fn push(&mut self, event: Arc<RingEvent>, now_ms: u64) {
        let number = self.first + self.entries.len() as u64;
        self.advance(event.at.next());
        let before = keys(&event.audience)
            .map(|key| (key, self.newest.insert(key, number)))
            .collect();
        self.bytes += event.bytes;
        self.entries.push_back(Entry {
            event,
            received_ms: now_ms,
            before,
        });
    }

    /// Drops the oldest event; those below it are no longer to be had.
    pub(crate) fn drop_oldest(&mut self) {
        let Some(entry) = self.entries.pop_front() else {
            return;
        };
        for (key, _) in entry.before {
            if self.newest.get(&key) == Some(&self.first) {
                self.newest.remove(&key);
            }
        }
        self.first += 1;
        self.low = entry.event.at.next();
        self.bytes -= entry.event.bytes;
    }

    /// The events that concern a user or a group from `since` on, the newest first.
    pub(crate) fn newest_first(
        &self,
        key: Recipient,
        since: NextOffset,
    ) -> impl Iterator<Item = &Arc<RingEvent>> {
        let mut next = self.newest.get(&key).copied();
        std::iter::from_fn(move || {
            let number = next?.checked_sub(self.first)?;
            let entry = self.entries.get(number as usize)?;
            let link = entry.before.iter().find(|(other, _)| *other == key)?;
            next = link.1;
            Some(&entry.event)
        })
        .take_while(move |event| event.at.offset >= since.get())
    }
}

fn keys(audience: &Audience) -> impl Iterator<Item = Recipient> {
    let users = audience.users().iter().copied().map(Recipient::User);
    users.chain(audience.group().map(Recipient::Group))
}

#[cfg(test)]
mod tests {
    use schemas::UserId;

    use super::*;
    use crate::hub::test_events::message;

    fn offsets(ring: &PartitionRing, uid: i64, since: i64) -> Vec<i64> {
        let key = Recipient::User(UserId::try_from(uid).unwrap());
        let events = ring.newest_first(key, NextOffset::new(since));
        events.map(|event| event.at.offset).collect()
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
