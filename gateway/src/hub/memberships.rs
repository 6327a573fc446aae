//! In which groups a user is.

use std::collections::{BTreeMap, BTreeSet};

use message_store::Membership;
use schemas::{GroupId, NextOffset, Partition, PartitionMap, UserId};

use super::{
    NoStream,
    audience::MembershipChange,
    own_changes::{Budget, OwnChanges},
    ring::PartitionRing,
};

/// A user's memberships as MySQL has them, and the positions that they reflect, read in the same snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoredMemberships {
    pub(crate) spans: BTreeMap<GroupId, Span>,
    pub(crate) applied: PartitionMap<NextOffset>,
}

/// When a user is a member of a group, by offsets in its partition of `chat.events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// The event by which the user joined last.
    pub(crate) join_pos: i64,
    /// The event by which the user left after that; `None` for a member. Members of a dissolved group stay members: they may still leave it, and get
    /// what else happens there (PROTOCOL G7).
    pub(crate) left_pos: Option<i64>,
}

impl From<&Membership> for Span {
    fn from(row: &Membership) -> Self {
        Self {
            join_pos: row.join_pos,
            left_pos: (!row.is_member()).then_some(row.left_pos),
        }
    }
}

impl Span {
    /// The span after a change that names the user.
    pub(super) fn after(before: Option<Self>, offset: i64, change: MembershipChange) -> Self {
        let join_pos = match before {
            Some(span) if change.was_member || !change.is_member => span.join_pos,
            _ => offset,
        };
        Self {
            join_pos,
            left_pos: (!change.is_member).then_some(offset),
        }
    }

    /// Whether the user is a member when this event happens: from joining on, and before leaving. The event of leaving names the user, and so reaches
    /// them (PROTOCOL W2).
    pub(crate) fn contains(self, offset: i64) -> bool {
        self.join_pos <= offset && self.left_pos.is_none_or(|left| offset < left)
    }

    /// Whether events of the group from here on may be the user's.
    pub(crate) fn is_open_at(self, next: NextOffset) -> bool {
        self.left_pos.is_none_or(|left| next.get() < left)
    }
}

/// The memberships of a user whom the hub does not know yet: MySQL's rows, and the later changes in the rings, which are looked up in turns.
pub(crate) struct Adoption {
    uid: UserId,
    spans: BTreeMap<GroupId, Span>,
    applied: PartitionMap<NextOffset>,
    /// The offset after the last event by which the user joined a group.
    joined: PartitionMap<NextOffset>,
    changes: OwnChanges,
    /// Changes that are not in the spans yet.
    pending: BTreeSet<(GroupId, i64)>,
}

impl Adoption {
    pub(crate) fn new(uid: UserId, stored: StoredMemberships) -> Self {
        let mut joined = PartitionMap::new();
        for (gid, span) in &stored.spans {
            let last = joined.get_or_insert_with(gid.partition(), NextOffset::default);
            *last = NextOffset::after(span.join_pos).max(*last);
        }
        Self {
            uid,
            spans: stored.spans,
            applied: stored.applied,
            joined,
            changes: OwnChanges::new(uid),
            pending: BTreeSet::new(),
        }
    }

    pub(super) fn uid(&self) -> UserId {
        self.uid
    }

    /// Looks for changes. Returns the memberships as of the end of the rings once there is nothing more to look at.
    ///
    /// # Errors
    /// [`NoStream::MembershipsBehind`] if a change may be neither in MySQL's rows nor in the rings, or if the join of a row is at an offset that the
    /// gateway has yet to read: the row does not say whether the user was a member before (W3).
    pub(super) fn look(
        &mut self,
        rings: &PartitionMap<PartitionRing>,
        budget: &mut Budget,
    ) -> Result<Option<BTreeMap<GroupId, Span>>, NoStream> {
        let of = |all: &PartitionMap<NextOffset>, p| all.get(p).copied().unwrap_or_default();
        let applied = |partition| of(&self.applied, partition);
        let is_known = |(p, ring): (Partition, &PartitionRing)| {
            ring.low() <= applied(p) && of(&self.joined, p) <= ring.next()
        };
        if !rings.iter().all(is_known) {
            return Err(NoStream::MembershipsBehind);
        }
        let pending = &mut self.pending;
        let is_done = self.changes.look(rings, applied, budget, |_, entry, gid| {
            pending.extend(gid.map(|gid| (gid, entry.offset)));
        });
        if !is_done || self.pending.len() > budget.left() {
            return Ok(None);
        }
        self.settle();
        Ok(Some(std::mem::take(&mut self.spans)))
    }

    /// Applies the changes that were found to the spans. If they are many, this is called without the hub's lock.
    pub(crate) fn settle(&mut self) {
        if !self.changes.is_complete() {
            return;
        }
        for (gid, offset) in std::mem::take(&mut self.pending) {
            if let Some(change) = self.changes.at(gid, offset) {
                let span = Span::after(self.spans.get(&gid).copied(), offset, change);
                self.spans.insert(gid, span);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_opens_or_closes_a_span_whatever_was_known() {
        let open = Span {
            join_pos: 3,
            left_pos: None,
        };
        let left = |join_pos| Span {
            join_pos,
            left_pos: Some(9),
        };
        let joined = Span {
            join_pos: 9,
            left_pos: None,
        };
        let closed = Span {
            join_pos: 3,
            left_pos: Some(5),
        };
        for (before, was_member, is_member, after) in [
            (None, false, true, joined),
            (None, true, true, joined),
            (None, true, false, left(9)),
            (Some(open), false, true, joined),
            (Some(open), true, true, open),
            (Some(open), true, false, left(3)),
            (Some(closed), false, true, joined),
            (Some(closed), true, true, open),
        ] {
            let change = MembershipChange {
                was_member,
                is_member,
            };
            assert_eq!(
                Span::after(before, 9, change),
                after,
                "{before:?}, {change:?}"
            );
        }
    }
}
