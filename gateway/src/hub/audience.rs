//! Whom an event concerns.

use std::slice::from_ref;

use schemas::{GroupId, UserId};

/// Whom an event concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Nobody: rules, progress.
    Nobody,
    /// One user.
    One(UserId),
    /// The two users of a conversation, who may be the same.
    Two([UserId; 2]),
    /// The members of a group.
    Members(GroupId),
    /// The members of a group that changes, and the users who become members or cease to be, in the order of their uids.
    Changed(GroupId, Vec<(UserId, MembershipChange)>),
}

/// Whether a user is a member before and after an event that names the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MembershipChange {
    pub(super) was_member: bool,
    pub(super) is_member: bool,
}

impl Audience {
    /// The users that it names, each once, in the order of their uids.
    pub(crate) fn users(&self) -> impl Iterator<Item = UserId> {
        let (users, changes): (&[UserId], &[_]) = match self {
            Self::Two([one, other]) if one == other => (from_ref(one), &[]),
            Self::Two(users) => (users, &[]),
            Self::One(uid) => (from_ref(uid), &[]),
            Self::Changed(_, changes) => (&[], changes),
            Self::Nobody | Self::Members(_) => (&[], &[]),
        };
        let changed = changes.iter().map(|(uid, _)| *uid);
        users.iter().copied().chain(changed)
    }

    pub(crate) fn names(&self, uid: UserId) -> bool {
        match self {
            Self::One(one) => *one == uid,
            Self::Two(users) => users.contains(&uid),
            Self::Changed(..) => self.change_for(uid).is_some(),
            Self::Nobody | Self::Members(_) => false,
        }
    }

    /// What a change of a group says about the users whom it names.
    pub(super) fn changes(&self) -> &[(UserId, MembershipChange)] {
        match self {
            Self::Changed(_, changes) => changes,
            Self::Nobody | Self::One(_) | Self::Two(_) | Self::Members(_) => &[],
        }
    }

    /// What a change of a group says about a user, if it names the user.
    pub(crate) fn change_for(&self, uid: UserId) -> Option<MembershipChange> {
        let changes = self.changes();
        let at = changes.binary_search_by_key(&uid, |(uid, _)| *uid).ok()?;
        Some(changes[at].1)
    }

    /// The group whose members it concerns.
    pub(crate) fn group(&self) -> Option<GroupId> {
        match self {
            Self::Members(gid) | Self::Changed(gid, _) => Some(*gid),
            Self::Nobody | Self::One(_) | Self::Two(_) => None,
        }
    }
}
