//! Whom an event concerns.

use schemas::{
    Change, GroupBody, GroupId, UserId,
    event::{Body, Event},
};

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
    /// What a user sees of a conversation, says about a contact or has read is between the user's own devices.
    pub(crate) fn of(event: &Event) -> Self {
        match &event.body {
            Body::Message(message) => Self::Two([message.srcid, message.destid]),
            Body::ReadPosition(read) => Self::One(read.uid),
            Body::MessageChange(change) => Self::of_change(change.by, change.peer, &change.change),
            Body::ContactChange(change) => Self::One(change.uid),
            Body::Profile(profile) => Self::One(profile.uid),
            Body::Group(event) => match &event.body {
                GroupBody::Message { .. } => Self::Members(event.gid),
                GroupBody::ReadPosition { .. } => Self::One(event.by),
                GroupBody::MessageChange { change, .. } if change.is_for_one() => {
                    Self::One(event.by)
                }
                GroupBody::MessageChange { .. } => Self::Members(event.gid),
                GroupBody::Change(change) => {
                    let named = change.members.iter().map(|member| member.uid);
                    Self::MembersAnd(event.gid, named.collect())
                }
            },
            Body::Control(_) | Body::Progress => Self::Nobody,
        }
    }

    fn of_change(by: UserId, peer: UserId, change: &Change) -> Self {
        if change.is_for_one() {
            Self::One(by)
        } else {
            Self::Two([by, peer])
        }
    }

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
