use std::fmt;

use schemas::{
    ConversationId, DirectConversation, GroupId, Partition, UserId,
    event::{Body, Event},
};

/// What a value in a store is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Subject {
    /// What the first user sees of the second.
    Contact(UserId, UserId),
    Group(GroupId),
    /// A user in a group.
    Member(GroupId, UserId),
    User(UserId),
}

impl Subject {
    /// The subjects for which an event may change something. A direct conversation is one subject: see [`Self::sides`].
    pub(crate) fn of_event(event: &Event) -> Vec<Self> {
        let uids = match &event.body {
            Body::Message(message) => vec![message.srcid],
            Body::ReadPosition(position) => vec![position.uid],
            Body::MessageChange(change) => vec![change.by],
            Body::ContactChange(change) => vec![change.uid],
            Body::GroupChange(change) => {
                let members = change.members.iter().map(|member| member.uid);
                [change.by].into_iter().chain(members).collect()
            }
            Body::Profile(profile) => vec![profile.uid],
            Body::Control(_) | Body::Progress => Vec::new(),
        };
        match event.conversation() {
            Some(ConversationId::Direct(id)) => vec![Self::Contact(id.lo(), id.hi())],
            Some(ConversationId::Group(gid)) => {
                let members = uids.into_iter().map(|uid| Self::Member(gid, uid));
                [Self::Group(gid)].into_iter().chain(members).collect()
            }
            None => uids.into_iter().map(Self::User).collect(),
        }
    }

    /// The subject; for a contact also what the peer sees.
    pub(crate) fn sides(self) -> impl Iterator<Item = Self> {
        let other = match self {
            Self::Contact(uid, peer) if uid != peer => Some(Self::Contact(peer, uid)),
            _ => None,
        };
        [self].into_iter().chain(other)
    }

    /// The partition of its events.
    pub(crate) fn partition(self) -> Partition {
        match self {
            Self::Contact(uid, peer) => DirectConversation::new(uid, peer).partition(),
            Self::Group(gid) | Self::Member(gid, _) => gid.partition(),
            Self::User(uid) => Partition::of_user(uid),
        }
    }

    /// Its user, peer and group.
    pub(crate) fn ids(self) -> (Option<UserId>, Option<UserId>, Option<GroupId>) {
        match self {
            Self::Contact(uid, peer) => (Some(uid), Some(peer), None),
            Self::Group(gid) => (None, None, Some(gid)),
            Self::Member(gid, uid) => (Some(uid), None, Some(gid)),
            Self::User(uid) => (Some(uid), None, None),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Contact(uid, peer) => write!(f, "{uid} with {peer}"),
            Self::Group(gid) => write!(f, "g:{gid}"),
            Self::Member(gid, uid) => write!(f, "{uid} in g:{gid}"),
            Self::User(uid) => uid.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contact_has_two_sides_and_a_note_to_oneself_one() {
        let [one, other] = [7, 40].map(|uid| UserId::try_from(uid).unwrap());
        let sides = |subject: Subject| subject.sides().collect::<Vec<_>>();
        let contact = Subject::Contact(one, other);
        assert_eq!(sides(contact), [contact, Subject::Contact(other, one)]);
        for alone in [Subject::Contact(one, one), Subject::User(one)] {
            assert_eq!(sides(alone), [alone]);
        }
    }
}
