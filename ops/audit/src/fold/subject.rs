use std::fmt;

use schemas::{
    ConversationId, DirectConversation, GroupBody, GroupId, Partition, Profile, UserId,
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
    /// Those of which an event may change something. A direct conversation is one of them: see [`Self::sides`].
    pub(crate) fn of_event(event: &Event) -> Vec<Self> {
        match (event.conversation(), &event.body) {
            (Some(ConversationId::Direct(id)), _) => vec![Self::Contact(id.lo(), id.hi())],
            (_, Body::Group(event)) => {
                let gid = event.gid;
                let mut subjects = vec![Self::Group(gid), Self::Member(gid, event.by)];
                if let GroupBody::Change(change) = &event.body {
                    let members = change.members.iter();
                    subjects.extend(members.map(|member| Self::Member(gid, member.uid)));
                }
                subjects
            }
            (_, Body::Profile(profile)) => vec![Self::User(profile.uid)],
            _ => Vec::new(),
        }
    }

    /// Of a contact also what the peer sees.
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
            Self::User(uid) => Profile::partition_of(uid),
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
