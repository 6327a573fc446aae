//! Events that wait to be applied.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use projection::{EventBatch, LogEvent};
use schemas::{
    LogPosition, Partition, PartitionMap, Recipient, StoredProfile, TableNumber, TimestampMs,
    UserId, event::Body,
};
use unread_store::{ProfileUpdate, UserUpdate, slot_index};

/// The memory that a count takes, roughly.
const COUNT_BYTES: usize = 64;

/// Events folded to one update per user, and the positions after them.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The updates, by slot.
    updates: Vec<Vec<UserUpdate>>,
    /// The newest profile of each user, by slot.
    profiles: Vec<BTreeMap<UserId, ProfileUpdate>>,
    /// The index of a user's update among those of the slot.
    index: HashMap<UserId, usize>,
    behind: PartitionMap<LogPosition>,
    counts: usize,
    events: u64,
    oldest: Option<TimestampMs>,
}

impl Batch {
    /// An empty batch for this many slots.
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            updates: vec![Vec::new(); slots],
            profiles: vec![BTreeMap::new(); slots],
            index: HashMap::new(),
            behind: PartitionMap::new(),
            counts: 0,
            events: 0,
            oldest: None,
        }
    }

    pub(crate) fn absorb(&mut self, batch: &EventBatch) {
        for event in &batch.events {
            self.fold(event);
        }
        self.behind.insert(batch.partition, batch.end);
    }

    fn fold(&mut self, LogEvent { offset, event }: &LogEvent) {
        self.events += 1;
        self.oldest = Some(self.oldest.map_or(event.ts, |ts| ts.min(event.ts)));
        match &event.body {
            Body::Message(message) => match message.to {
                // A note to oneself is never unread, and unread messages of groups are not counted here.
                Recipient::User(destid) if destid != message.srcid => {
                    self.update(destid, |receiver| {
                        receiver.message(message.srcid, message.ordinal);
                    });
                }
                Recipient::User(_) | Recipient::Group(_) => {}
            },
            Body::Profile(profile) => self.profile(StoredProfile {
                profile: profile.clone(),
                ts: event.ts,
                event_offset: *offset,
            }),
            body => {
                for position in body.read_positions() {
                    self.update(position.uid, |reader| reader.read(&position));
                }
            }
        }
    }

    fn update(&mut self, uid: UserId, change: impl FnOnce(&mut UserUpdate)) {
        let slot = slot_index(TableNumber::of_user(uid), self.updates.len());
        let updates = &mut self.updates[slot];
        let at = *self.index.entry(uid).or_insert_with(|| {
            updates.push(UserUpdate::new(uid));
            self.counts += 1;
            updates.len() - 1
        });
        let update = &mut updates[at];
        let before = update.peers.len();
        change(update);
        self.counts += update.peers.len() - before;
    }

    /// A later profile takes the place of an earlier one. Profiles come in the order of the log, unless a part of the log is read again.
    fn profile(&mut self, stored: StoredProfile) {
        let uid = stored.profile.uid;
        self.counts += 1 + stored.profile.extra.as_ref().map_or(0, String::len) / COUNT_BYTES;
        let slot = slot_index(TableNumber::of_user(uid), self.updates.len());
        let newest = self.profiles[slot].get(&uid);
        if newest.is_none_or(|newest| newest.stored.event_offset < stored.event_offset) {
            self.profiles[slot].insert(uid, ProfileUpdate::of_event(stored));
        }
    }

    /// The profiles of the users of a slot.
    pub(crate) fn profiles(&self, slot: usize) -> Vec<ProfileUpdate> {
        self.profiles[slot].values().cloned().collect()
    }

    /// Removes the positions of these partitions. Their updates may stay: applying them again, or by two processes, changes nothing.
    pub(crate) fn release(&mut self, partitions: &[Partition]) {
        for partition in partitions {
            self.behind.remove(*partition);
        }
        if self.behind.is_empty() {
            *self = Self::new(self.updates.len());
        }
    }

    /// The updates of the users of a slot.
    pub(crate) fn updates(&self, slot: usize) -> &[UserUpdate] {
        &self.updates[slot]
    }

    /// The position after the events of each partition.
    pub(crate) fn behind(&self) -> &PartitionMap<LogPosition> {
        &self.behind
    }

    /// The number of counts: one for each user, and one for each of their peers. A large profile counts as several.
    pub(crate) fn counts(&self) -> usize {
        self.counts
    }

    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    pub(crate) fn oldest(&self) -> Option<TimestampMs> {
        self.oldest
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use schemas::{
        Change, ChangeSeq, ContactChange, ContactFlags, DeletedContact, DeviceClass, MessageChange,
        Mid, NextOffset, PerDevice, Profile,
        event::{Event, Message, ReadPosition, Source, SourceOffset},
    };
    use unread_store::PeerUpdate;

    use super::*;

    fn user(uid: i64) -> UserId {
        uid.try_into().unwrap()
    }

    fn event(body: Body) -> Event {
        let src = Source {
            offset: SourceOffset::START,
            leader_epoch: 0,
        };
        Event {
            src,
            ts: TimestampMs(1),
            body,
            command: None,
            words: None,
        }
    }

    fn message(srcid: i64, destid: i64, n: i64) -> Event {
        event(Body::Message(Message {
            srcid: user(srcid),
            to: Recipient::User(user(destid)),
            client_msg_id: "c".to_owned().try_into().unwrap(),
            msg: "text".to_owned(),
            mid: Mid::ZERO.next(),
            ordinal: n.try_into().unwrap(),
        }))
    }

    fn read(uid: i64, peer: i64, device: DeviceClass, n: Option<i64>) -> Event {
        event(Body::ReadPosition(ReadPosition {
            uid: user(uid),
            to: Recipient::User(user(peer)),
            device,
            mid: Mid::ZERO.next(),
            ordinal: n.map(|n| n.try_into().unwrap()),
        }))
    }

    fn change(by: i64, peer: i64, change: Change, n: Option<i64>) -> Event {
        event(Body::MessageChange(MessageChange {
            by: user(by),
            to: Recipient::User(user(peer)),
            mid: Mid::ZERO.next(),
            change,
            change_seq: ChangeSeq::ZERO.next(),
            ordinal: n.map(|n| n.try_into().unwrap()),
        }))
    }

    fn contact(uid: i64, peer: i64, deleted_n: Option<i64>) -> Event {
        let deleted = deleted_n.map(|n| DeletedContact {
            mid: Mid::ZERO.next(),
            ordinal: n.try_into().unwrap(),
        });
        event(Body::ContactChange(ContactChange {
            uid: user(uid),
            peer: user(peer),
            flags: ContactFlags::default(),
            deleted,
        }))
    }

    fn event_batch(partition: i64, events: impl IntoIterator<Item = Event>) -> EventBatch {
        let numbered = (0..).zip(events);
        let events: Vec<LogEvent> = numbered
            .map(|(offset, event)| LogEvent { offset, event })
            .collect();
        EventBatch {
            partition: partition.try_into().unwrap(),
            end: LogPosition {
                next: NextOffset::new(events.len() as i64),
                watermark: SourceOffset::START,
            },
            events,
        }
    }

    fn folded(events: impl IntoIterator<Item = Event>) -> Batch {
        let mut batch = Batch::new(1);
        batch.absorb(&event_batch(0, events));
        batch
    }

    fn by_user(batch: &Batch) -> BTreeMap<UserId, UserUpdate> {
        let updates = batch.updates(0).iter();
        updates.map(|update| (update.uid, update.clone())).collect()
    }

    #[test]
    fn a_batch_is_one_update_per_user() {
        let batch = folded([
            message(1001, 1000, 1),
            message(1001, 1000, 2),
            message(1002, 1000, 1),
            message(1000, 1001, 1),
            read(1000, 1001, DeviceClass::Mobile, Some(2)),
        ]);
        let updates = by_user(&batch);
        let expected = PeerUpdate {
            ordinal: Some(2.try_into().unwrap()),
            read: PerDevice {
                pc: None,
                mobile: Some(2.try_into().unwrap()),
            },
        };
        assert_eq!(updates[&user(1000)].peers[&user(1001)], expected);
        assert!(updates[&user(1000)].renew && !updates[&user(1001)].renew);
        assert_eq!((updates.len(), batch.counts(), batch.events()), (2, 5, 5));
    }

    #[test]
    fn a_position_without_ordinal_invalidates_and_notes_to_oneself_change_nothing() {
        let batch = folded([
            message(1, 1, 1),
            read(2, 3, DeviceClass::Pc, None),
            event(Body::Control(schemas::event::Rules::VERSION_1)),
        ]);
        let updates = by_user(&batch);
        assert_eq!(updates.keys().copied().collect::<Vec<_>>(), [user(2)]);
        assert!(updates[&user(2)].invalidate);
        assert_eq!(batch.events(), 3);
    }

    #[test]
    fn who_clears_a_history_or_deletes_a_contact_has_read_it_on_both_classes() {
        let batch = folded([
            change(1, 2, Change::Clear, Some(4)),
            contact(1, 3, Some(5)),
            change(4, 2, Change::Clear, None),
            contact(5, 5, Some(1)),
        ]);
        let updates = by_user(&batch);
        let read = |n: i64| PeerUpdate {
            ordinal: None,
            read: PerDevice {
                pc: Some(n.try_into().unwrap()),
                mobile: Some(n.try_into().unwrap()),
            },
        };
        let expected = BTreeMap::from([(user(2), read(4)), (user(3), read(5))]);
        assert_eq!(updates[&user(1)].peers, expected);
        assert!(updates[&user(4)].invalidate && updates[&user(4)].peers.is_empty());
        assert_eq!(
            updates.keys().copied().collect::<Vec<_>>(),
            [user(1), user(4)]
        );
    }

    #[test]
    fn other_changes_move_no_count() {
        let batch = folded([
            change(1, 2, Change::Recall, None),
            change(1, 2, Change::Delete, None),
            change(1, 2, Change::Edit("new".to_owned()), None),
            change(1, 2, Change::Hide, None),
            contact(1, 2, None),
        ]);
        assert_eq!((batch.counts(), batch.events()), (0, 5));
    }

    #[test]
    fn the_newest_profile_of_a_user_stays() {
        let profile = |uid: i64, nick: &str| {
            event(Body::Profile(Profile {
                uid: user(uid),
                nick: nick.to_owned(),
                avatar: None,
                extra: None,
            }))
        };
        let mut batch = folded([profile(1, "a"), profile(2, "b"), profile(1, "c")]);
        // What is read again.
        batch.absorb(&event_batch(0, [profile(1, "a")]));
        let profiles = batch.profiles(0);
        let found = profiles.iter().map(|one| one.stored.profile.nick.as_str());
        assert_eq!(found.collect::<Vec<_>>(), ["c", "b"]);
        assert_eq!(batch.events(), 4);
    }

    #[test]
    fn a_released_partition_moves_no_position() {
        let p = |n: i64| Partition::try_from(n).unwrap();
        let mut batch = folded([message(1, 2, 1)]);
        batch.absorb(&event_batch(1, []));
        batch.release(&[p(0)]);
        assert_eq!(batch.behind().partitions().collect::<Vec<_>>(), [p(1)]);
        assert_eq!(batch.counts(), 2);
        batch.release(&[p(1)]);
        assert_eq!((batch.counts(), batch.updates(0).len()), (0, 0));
    }

    fn any_event() -> impl Strategy<Value = Event> {
        let class = prop_oneof![Just(DeviceClass::Pc), Just(DeviceClass::Mobile)];
        prop_oneof![
            (1..5_i64, 1..5_i64, 1..9_i64).prop_map(|(src, dest, n)| message(src, dest, n)),
            (1..5_i64, 1..5_i64, class, proptest::option::of(1..9_i64))
                .prop_map(|(uid, peer, class, n)| read(uid, peer, class, n)),
            (1..5_i64, 1..5_i64, proptest::option::of(1..9_i64)).prop_map(|(by, peer, n)| change(
                by,
                peer,
                Change::Clear,
                n
            )),
            (1..5_i64, 1..5_i64, proptest::option::of(1..9_i64))
                .prop_map(|(uid, peer, n)| contact(uid, peer, n)),
        ]
    }

    proptest! {
        #[test]
        fn order_and_repetition_change_nothing(
            events in proptest::collection::vec(any_event(), 0..40),
            cut in 0..40_usize,
        ) {
            let once = folded(events.clone());
            let again = events.iter().take(cut).cloned();
            let shuffled = folded(events.iter().rev().cloned().chain(again));
            prop_assert_eq!(by_user(&once), by_user(&shuffled));
            let weight: usize = once.updates(0).iter().map(|u| 1 + u.peers.len()).sum();
            prop_assert_eq!(once.counts(), weight);
        }
    }
}
