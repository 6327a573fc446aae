//! What the hub reads in an event's body. No other part of the hub looks into a body.

use schemas::{
    ClientMsgId, GroupChange, Mid, Recipient, UserId,
    event::{Body, Event},
};

use super::audience::{Audience, MembershipChange};

/// The users whom an event concerns: the members of its conversation, or only its author. A change of a group also concerns the users whom it names.
pub(super) fn audience_of(event: &Event) -> Audience {
    if let Body::GroupChange(change) = &event.body {
        return changed_members(change);
    }
    let Some(kind) = event.body.kind() else {
        return Audience::Nobody;
    };
    match (kind.scope().author, kind.scope().to) {
        (None, _) => Audience::Nobody,
        (Some(author), _) if kind.is_for_author() => Audience::One(author),
        (Some(author), None) => Audience::One(author),
        (Some(by), Some(Recipient::User(peer))) => Audience::Two([by.min(peer), by.max(peer)]),
        (Some(_), Some(Recipient::Group(gid))) => Audience::Members(gid),
    }
}

fn changed_members(change: &GroupChange) -> Audience {
    let named = change.members.iter().map(|member| {
        let change = MembershipChange {
            was_member: !member.joined,
            is_member: member.role.is_some(),
        };
        (member.uid, change)
    });
    let mut named: Vec<_> = named.collect();
    named.sort_by_key(|(uid, _)| *uid);
    Audience::Changed(change.gid, named)
}

/// A message as its author knows it.
pub(super) struct Authored<'a> {
    pub(super) author: UserId,
    pub(super) to: Recipient,
    pub(super) client_msg_id: &'a ClientMsgId,
    pub(super) mid: Mid,
}

/// `None` if the event is not a message.
pub(super) fn message_of(event: &Event) -> Option<Authored<'_>> {
    let Body::Message(message) = &event.body else {
        return None;
    };
    Some(Authored {
        author: message.srcid,
        to: message.to,
        client_msg_id: &message.client_msg_id,
        mid: message.mid,
    })
}

/// The account to which the bytes of an event in the rings are charged.
pub(super) fn author_of(event: &Event) -> Option<UserId> {
    event.body.scope()?.author
}

pub(super) fn group_change(event: &Event) -> Option<&GroupChange> {
    match &event.body {
        Body::GroupChange(change) => Some(change),
        _ => None,
    }
}
