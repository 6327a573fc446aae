//! What the rings say about a user, looked up in turns.

use std::{collections::BTreeMap, ops::Bound};

use schemas::{GroupId, NextOffset, Partition, PartitionMap, Recipient, UserId};

use super::{
    Span,
    audience::MembershipChange,
    ring::{Entry, PartitionRing},
};

/// What may still be looked at in a turn: entries of rings, and groups.
pub(crate) struct Budget(usize);

impl Budget {
    pub(super) fn new(of_turn: usize) -> Self {
        Self(of_turn)
    }

    pub(super) fn left(&self) -> usize {
        self.0
    }

    /// Whether one more may be looked at.
    pub(super) fn take(&mut self) -> bool {
        let is_left = self.0 > 0;
        self.0 = self.0.saturating_sub(1);
        is_left
    }
}

/// A walk along a chain of a ring, from its newest entry down to those that an earlier walk has seen, or to an offset.
#[derive(Clone, Copy, Default)]
pub(super) struct Walk {
    /// The next entry to be looked at.
    at: Option<u64>,
    /// The newest entry of this walk, while it goes on.
    top: Option<u64>,
    /// The newest entry of the walks before.
    seen: Option<u64>,
}

impl Walk {
    /// Goes on, and starts again if there are newer entries by then. Returns whether all of the chain down to the offset was looked at.
    pub(super) fn go_on(
        &mut self,
        ring: &PartitionRing,
        key: Recipient,
        down_to: NextOffset,
        budget: &mut Budget,
        mut visit: impl FnMut(&Entry),
    ) -> bool {
        loop {
            if self.top.is_none() {
                let newest = ring.newest(key);
                if newest.is_none() || newest <= self.seen {
                    return true;
                }
                (self.top, self.at) = (newest, newest);
            }
            while let Some(number) = self.at.filter(|number| Some(*number) > self.seen) {
                if !budget.take() {
                    return false;
                }
                let entry = ring.entry(number);
                let entry = entry.filter(|entry| entry.offset >= down_to.get());
                if let Some(entry) = entry {
                    visit(entry);
                }
                self.at = entry.and_then(|entry| entry.before(key));
            }
            self.seen = self.top.take();
        }
    }
}

/// The entries that name a user, and what they say about the user's memberships.
pub(super) struct OwnChanges {
    uid: UserId,
    walks: PartitionMap<Walk>,
    /// By group and offset.
    changes: BTreeMap<(GroupId, i64), MembershipChange>,
    is_complete: bool,
}

impl OwnChanges {
    pub(super) fn new(uid: UserId) -> Self {
        Self {
            uid,
            walks: PartitionMap::full(|_| Walk::default()),
            changes: BTreeMap::new(),
            is_complete: false,
        }
    }

    /// Looks at the entries that name the user, down to an offset of each partition, and at those that have come since the last look. `visit` gets
    /// each entry, with its group if it is a change of one. Returns whether all entries so far were looked at.
    pub(super) fn look(
        &mut self,
        rings: &PartitionMap<PartitionRing>,
        down_to: impl Fn(Partition) -> NextOffset,
        budget: &mut Budget,
        mut visit: impl FnMut(Partition, &Entry, Option<GroupId>),
    ) -> bool {
        let (uid, changes) = (self.uid, &mut self.changes);
        self.is_complete = rings.iter().all(|(partition, ring)| {
            let (key, down_to) = (Recipient::User(uid), down_to(partition));
            self.walks[partition].go_on(ring, key, down_to, budget, |entry| {
                let change = entry.membership_change(uid);
                changes.extend(change.map(|(gid, change)| ((gid, entry.offset), change)));
                visit(partition, entry, change.map(|(gid, _)| gid));
            })
        });
        self.is_complete
    }

    /// Whether the last look has looked at all entries that there were at that time.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    pub(super) fn at(&self, gid: GroupId, offset: i64) -> Option<MembershipChange> {
        self.changes.get(&(gid, offset)).copied()
    }

    /// Whether an event of a group concerns the user, whose present span is `now`. An event that names the user always does. For an event before a
    /// change of the user's membership the membership before that change counts, after it the new one.
    pub(super) fn concerns(&self, gid: GroupId, offset: i64, now: Option<Span>) -> bool {
        let before = self.changes.range((gid, i64::MIN)..=(gid, offset));
        if let Some(((_, at), change)) = before.last() {
            return change.is_member || *at == offset;
        }
        let after = (
            Bound::Excluded((gid, offset)),
            Bound::Included((gid, i64::MAX)),
        );
        match self.changes.range(after).next() {
            Some((_, change)) => change.was_member,
            None => now.is_some_and(|span| span.contains(offset)),
        }
    }
}
