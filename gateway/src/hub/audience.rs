//! Whom an event concerns.

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
    /// The members of a group, and these, who become or cease to be some.
    MembersAnd(GroupId, Vec<UserId>),
}

impl Audience {
    /// The users that it names, each once.
    pub(crate) fn users(&self) -> &[UserId] {
        match self {
            Self::Two([one, other]) if one == other => std::slice::from_ref(one),
            Self::Two(users) => users,
            Self::One(uid) => std::slice::from_ref(uid),
            Self::MembersAnd(_, named) => named,
            Self::Nobody | Self::Members(_) => &[],
        }
    }

    /// The group whose members it concerns.
    pub(crate) fn group(&self) -> Option<GroupId> {
        match self {
            Self::Members(gid) | Self::MembersAnd(gid, _) => Some(*gid),
            Self::Nobody | Self::One(_) | Self::Two(_) => None,
        }
    }
}
