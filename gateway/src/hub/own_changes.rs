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
    /// Goes on, and again where there are newer entries by then. Whether all of the chain down to the offset was looked at.
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

/// What names a user, and what it says about his memberships.
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

    /// Looks at what names the user, down to an offset of each partition, and what has come since the last look. With each entry goes the group whose
    /// change it is, if it is one. Whether that is all there is by now.
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

    /// Whether the last look was at all there was then.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    pub(super) fn at(&self, gid: GroupId, offset: i64) -> Option<MembershipChange> {
        self.changes.get(&(gid, offset)).copied()
    }

    /// Whether an event of a group is the user's, whose span is of now: one that names him is in any case. What he was before a change counts up to
    /// it, what he was after it from there on.
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
