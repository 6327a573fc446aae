//! What a device missed, looked up in the rings in turns (W10).

use std::{collections::BTreeMap, mem::take};

use api::HeadFrame;
use schemas::{
    EventPosition, GroupId, Mid, NextOffset, Partition, PartitionMap, Recipient, SyncToken, UserId,
};

use super::{
    NoStream,
    own_changes::{Budget, OwnChanges, Walk},
    queue::{Outgoing, Queue},
    ring::{Entry, PartitionRing, Retained},
    user::ConnectedUser,
};

/// How many events may be found between two calls of [`Replay::settle`]. A device that missed more syncs.
const MAX_MISSED: usize = 4_096;
/// How many turns one replay may take. A device that needs more syncs.
const MAX_TURNS: usize = 1_024;

/// The stream of a device whose user the hub knows, up to where the connection takes over.
pub(crate) struct Replay {
    uid: UserId,
    since: SyncToken,
    own: OwnChanges,
    /// The offsets up to which all ring entries have been looked at in order. Entries below the first turn's offsets are looked up by chain instead.
    live_from: Option<PartitionMap<NextOffset>>,
    /// The last group that was looked at to its end; `group` is the present one.
    done_to: Option<GroupId>,
    group: Option<(GroupId, Walk)>,
    has_groups: bool,
    missed: BTreeMap<EventPosition, Outgoing>,
    queue: Queue,
    turns: usize,
}

impl Replay {
    /// A replay from a token on; `queue_bytes` may wait.
    pub(crate) fn new(uid: UserId, since: SyncToken, queue_bytes: usize) -> Self {
        Self {
            uid,
            since,
            own: OwnChanges::new(uid),
            live_from: None,
            done_to: None,
            group: None,
            has_groups: false,
            missed: BTreeMap::new(),
            queue: Queue::new(uid, queue_bytes),
            turns: 0,
        }
    }

    pub(super) fn since(&self) -> &SyncToken {
        &self.since
    }

    /// What is to be queued for the connection, once everything was looked at.
    pub(super) fn take_queue(&mut self) -> Queue {
        std::mem::replace(&mut self.queue, Queue::new(self.uid, 0))
    }

    /// Goes on looking. Returns whether all entries so far were looked at.
    ///
    /// # Errors
    /// [`NoStream::SyncRequired`] if the device missed too much, or something that is no longer here.
    pub(super) fn look(
        &mut self,
        rings: &PartitionMap<PartitionRing>,
        user: &ConnectedUser,
        budget: &mut Budget,
    ) -> Result<bool, NoStream> {
        self.turns += 1;
        if self.turns > MAX_TURNS {
            return Err(NoStream::SyncRequired);
        }
        let ends = || rings.iter().map(|(p, ring)| (p, ring.next())).collect();
        let mut live_from = self.live_from.take().unwrap_or_else(ends);
        let is_done = self.look_at_own(rings, &live_from, budget)?
            && self.look_at_groups(rings, &live_from, user, budget)?
            && self.look_at_live(rings, &mut live_from, user, budget)?;
        self.live_from = Some(live_from);
        if !is_done || self.missed.len() > budget.left() {
            return Ok(false);
        }
        self.settle().map(|()| true)
    }

    /// Looks at all entries so far that name the user. So past memberships are known before the groups are looked at.
    fn look_at_own(
        &mut self,
        rings: &PartitionMap<PartitionRing>,
        live_from: &PartitionMap<NextOffset>,
        budget: &mut Budget,
    ) -> Result<bool, NoStream> {
        let (since, uid, missed) = (&self.since, self.uid, &mut self.missed);
        let since = |partition| since.get(partition);
        let mut found = Ok(());
        let is_done = self.own.look(rings, since, budget, |partition, entry, _| {
            if entry.offset < live_from[partition].get() && found.is_ok() {
                found = add(missed, uid, partition, entry);
            }
        });
        found.map(|()| is_done)
    }

    fn look_at_groups(
        &mut self,
        rings: &PartitionMap<PartitionRing>,
        live_from: &PartitionMap<NextOffset>,
        user: &ConnectedUser,
        budget: &mut Budget,
    ) -> Result<bool, NoStream> {
        loop {
            let begun = self.group.take();
            let next = || Some((user.group_after(self.done_to)?, Walk::default()));
            let Some((gid, mut walk)) = begun.or_else(next) else {
                self.has_groups = true;
                return Ok(true);
            };
            if !budget.take()
                || !self.look_at_group(rings, live_from, user, (gid, &mut walk), budget)?
            {
                self.group = Some((gid, walk));
                return Ok(false);
            }
            self.done_to = Some(gid);
        }
    }

    fn look_at_group(
        &mut self,
        rings: &PartitionMap<PartitionRing>,
        live_from: &PartitionMap<NextOffset>,
        user: &ConnectedUser,
        (gid, walk): (GroupId, &mut Walk),
        budget: &mut Budget,
    ) -> Result<bool, NoStream> {
        let (partition, span) = (gid.partition(), user.span(gid));
        let (since, live_from) = (self.since.get(partition), live_from[partition].get());
        let (own, uid, missed) = (&self.own, self.uid, &mut self.missed);
        let (key, mut found) = (Recipient::Group(gid), Ok(()));
        let is_done = walk.go_on(&rings[partition], key, since, budget, |entry| {
            let is_missed = entry.offset < live_from && own.concerns(gid, entry.offset, span);
            if is_missed && found.is_ok() {
                found = add(missed, uid, partition, entry);
            }
        });
        found.map(|()| is_done)
    }

    /// Looks at all entries since the first turn, whomever they concern.
    fn look_at_live(
        &mut self,
        rings: &PartitionMap<PartitionRing>,
        live_from: &mut PartitionMap<NextOffset>,
        user: &ConnectedUser,
        budget: &mut Budget,
    ) -> Result<bool, NoStream> {
        for (partition, ring) in rings.iter() {
            let from = &mut live_from[partition];
            let since = self.since.get(partition).max(*from);
            let mut number = ring.number_of(since);
            while let Some(entry) = ring.entry(number) {
                if !budget.take() {
                    return Ok(false);
                }
                if self.is_own(entry, user) {
                    add(&mut self.missed, self.uid, partition, entry)?;
                }
                *from = NextOffset::after(entry.offset);
                number += 1;
            }
            *from = ring.next();
        }
        Ok(true)
    }

    fn is_own(&self, entry: &Entry, user: &ConnectedUser) -> bool {
        if entry.is_of(Recipient::User(self.uid)) {
            return true;
        }
        let group = entry.group();
        group.is_some_and(|gid| self.own.concerns(gid, entry.offset, user.span(gid)))
    }

    /// Queues the events that were found, in order, once everything before them was looked at. If they are many, this is called without the hub's lock.
    ///
    /// # Errors
    /// What was found does not fit: a stream that breaks off before the token has moved would be asked for again and again (W8).
    pub(crate) fn settle(&mut self) -> Result<(), NoStream> {
        if !self.has_groups {
            return Ok(());
        }
        for item in take(&mut self.missed).into_values() {
            let pushed = self.queue.push(item);
            pushed.map_err(|_full| NoStream::SyncRequired)?;
        }
        Ok(())
    }
}

/// Adds an event that the user missed.
fn add(
    missed: &mut BTreeMap<EventPosition, Outgoing>,
    uid: UserId,
    partition: Partition,
    entry: &Entry,
) -> Result<(), NoStream> {
    let item = match &entry.retained {
        Retained::Whole(event) => Outgoing::Event(event.clone()),
        Retained::Head(head, author) if *author == uid => Outgoing::Head(*head),
        Retained::Head(head, _) => Outgoing::Head(HeadFrame {
            own_mid: Mid::ZERO,
            ..*head
        }),
        Retained::Audience(_) => return Err(NoStream::SyncRequired),
    };
    let offset = entry.offset;
    missed.insert(EventPosition { partition, offset }, item);
    match missed.len() <= MAX_MISSED {
        true => Ok(()),
        false => Err(NoStream::SyncRequired),
    }
}
