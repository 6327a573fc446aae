//! In which groups a user is, and was when an event happened.

use std::{collections::HashMap, sync::Arc};

use message_store::Membership;
use schemas::{GroupId, NextOffset, PartitionMap, Recipient, UserId};

use super::{
    body::{MembershipChange, change_for, dissolves},
    ring::PartitionRing,
    ring_event::RingEvent,
};

/// A user's memberships as MySQL has them, and the positions that they reflect, read in the same snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoredMemberships {
    pub(crate) spans: Vec<(GroupId, Span)>,
    pub(crate) applied: PartitionMap<NextOffset>,
}

/// When a user is a member of a group, by offsets in its partition of `chat.events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// The event by which the user joined last.
    pub(crate) join_pos: i64,
    /// The event by which the user left after that, or the one behind the dissolution of the group; `None` for a member. Rows of MySQL do not say whether a group is dissolved.
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
    /// The span behind a change that names the user.
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

    /// The group is dissolved by the event before this offset.
    pub(super) fn end_at(&mut self, next: NextOffset) {
        self.left_pos.get_or_insert(next.get());
    }

    /// Whether the user is a member when this event happens: from joining on, and before leaving, of which he hears since the event names him (PROTOCOL W2).
    pub(crate) fn contains(self, offset: i64) -> bool {
        self.join_pos <= offset && self.left_pos.is_none_or(|left| offset < left)
    }

    /// Whether events of the group from here on may be the user's.
    pub(crate) fn is_open_at(self, next: NextOffset) -> bool {
        self.left_pos.is_none_or(|left| next.get() < left)
    }
}

/// The groups of a user over all that the rings hold: MySQL's rows, and every change in the rings that names the user.
pub(crate) struct History<'a> {
    stored: HashMap<GroupId, Span>,
    rings: &'a PartitionMap<PartitionRing>,
    /// Oldest first.
    changes: HashMap<GroupId, Vec<(&'a Arc<RingEvent>, MembershipChange)>>,
}

impl<'a> History<'a> {
    pub(crate) fn new(
        uid: UserId,
        stored: &StoredMemberships,
        rings: &'a PartitionMap<PartitionRing>,
    ) -> Self {
        let mut changes: HashMap<GroupId, Vec<_>> = HashMap::new();
        for ring in rings.values() {
            for event in ring.newest_first(Recipient::User(uid), ring.low()) {
                if let (Some(change), Some(gid)) = (change_for(event, uid), event.audience.group())
                {
                    changes.entry(gid).or_default().insert(0, (event, change));
                }
            }
        }
        Self {
            stored: stored.spans.iter().copied().collect(),
            rings,
            changes,
        }
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = GroupId> {
        let only_here = self.changes.keys();
        let only_here = only_here.filter(|gid| !self.stored.contains_key(gid));
        self.stored.keys().chain(only_here).copied()
    }

    /// Whether an event of the group is the user's: one that names him is in any case.
    pub(crate) fn concerns(&self, gid: GroupId, offset: i64) -> bool {
        let changes = self.changes.get(&gid).map_or(&[][..], Vec::as_slice);
        let behind = changes.partition_point(|(event, _)| event.at.offset <= offset);
        match (
            behind.checked_sub(1).map(|last| &changes[last]),
            changes.get(behind),
        ) {
            (Some((event, change)), _) => change.is_member || event.at.offset == offset,
            (None, Some((_, change))) => change.was_member,
            (None, None) => self
                .stored
                .get(&gid)
                .is_some_and(|span| span.contains(offset)),
        }
    }

    /// The user's span in a group from the end of the rings on.
    pub(crate) fn span(&self, gid: GroupId, applied: &PartitionMap<NextOffset>) -> Option<Span> {
        let ring = &self.rings[gid.partition()];
        let applied = applied.get(gid.partition()).copied().unwrap_or_default();
        let changes = self.changes.get(&gid).into_iter().flatten();
        let newer = changes.filter(|(event, _)| event.at.offset >= applied.get());
        let stored = self.stored.get(&gid).copied();
        let mut span = newer.fold(stored, |span, (event, change)| {
            Some(Span::after(span, event.at.offset, *change))
        })?;
        // Nothing comes behind it in the group.
        let newest = ring.newest_first(Recipient::Group(gid), ring.low()).next();
        if let Some(event) = newest.filter(|event| dissolves(event)) {
            span.end_at(event.at.next());
        }
        Some(span)
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
