//! In which groups a user is, and was when an event happened.

use std::{collections::HashMap, sync::Arc};

use message_store::Membership;
use schemas::{GroupId, NextOffset, PartitionMap, Recipient, UserId};

use super::{
    body::{Named, change_for},
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
    /// The event by which the user left after that; `None` for a member.
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
    /// Oldest first.
    changes: HashMap<GroupId, Vec<(&'a Arc<RingEvent>, Named)>>,
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
                if let (Some(named), Some(gid)) = (change_for(event, uid), event.audience.group()) {
                    changes.entry(gid).or_default().insert(0, (event, named));
                }
            }
        }
        Self {
            stored: stored.spans.iter().copied().collect(),
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
            (Some((event, named)), _) => named.after || event.at.offset == offset,
            (None, Some((_, named))) => named.before,
            (None, None) => self
                .stored
                .get(&gid)
                .is_some_and(|span| span.contains(offset)),
        }
    }

    /// The user's span in a group from the end of the rings on.
    pub(crate) fn span(&self, gid: GroupId, applied: &PartitionMap<NextOffset>) -> Option<Span> {
        let stored = self.stored.get(&gid).copied();
        let applied = applied.get(gid.partition()).copied().unwrap_or_default();
        let newer = self.changes.get(&gid).and_then(|changes| changes.last());
        let newer = newer.filter(|(event, _)| event.at.offset >= applied.get());
        match newer {
            None => stored,
            Some((
                event,
                Named {
                    after: true,
                    before,
                },
            )) => Some(match stored {
                Some(span) if *before => Span {
                    left_pos: None,
                    ..span
                },
                _ => Span {
                    join_pos: event.at.offset,
                    left_pos: None,
                },
            }),
            Some((event, Named { after: false, .. })) => Some(Span {
                join_pos: stored.map_or(event.at.offset, |span| span.join_pos),
                left_pos: Some(event.at.offset),
            }),
        }
    }
}
