//! What the hub reads in an event's body. Nothing else in it looks into one.

use api::MEMBERS_IN_FRAME;
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

/// The most bytes that the frame of an event has: its texts in JSON, and at most this much besides.
pub(super) fn frame_bytes(event: &Event) -> usize {
    match &event.body {
        Body::Message(message) => {
            230 + json_bytes(&message.msg) + json_bytes(message.client_msg_id.as_str())
        }
        Body::ReadPosition(_) => 190,
        Body::MessageChange(change) => 255 + json_bytes(change.change.content()),
        Body::ContactChange(_) => 255,
        Body::Profile(profile) => {
            let avatar = profile.avatar.as_deref().map_or(0, json_bytes);
            // JSON already.
            let extra = profile.extra.as_ref().map_or(0, String::len);
            120 + json_bytes(&profile.nick) + avatar + extra
        }
        Body::GroupChange(change) => {
            let members = change.members.len().min(MEMBERS_IN_FRAME);
            360 + json_bytes(&change.settings.name) + 76 * members
        }
        Body::Control(_) | Body::Progress => 0,
    }
}

/// At least the length of a text in JSON, without quotes.
fn json_bytes(text: &str) -> usize {
    let length = |byte| match byte {
        b'"' | b'\\' => 2,
        ..=0x1f => 6,
        _ => 1,
    };
    text.bytes().map(length).sum()
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
