//! What the hub reads in an event's body. Nothing else in it looks into one.

use schemas::{
    Change, Chg, ClientMsgId, GroupBody, GroupChange, GroupEvent, Mid, UserId,
    event::{Body, Event},
};

use super::{audience::Audience, queue::Head, ring_event::RingEvent};

/// Whom an event concerns. What a user sees of a conversation, says about a contact or has read is between the user's own devices.
pub(super) fn audience_of(event: &Event) -> Audience {
    match &event.body {
        Body::Message(message) => Audience::Two([message.srcid, message.destid]),
        Body::ReadPosition(read) => Audience::One(read.uid),
        Body::MessageChange(change) if change.change.is_for_one() => Audience::One(change.by),
        Body::MessageChange(change) => Audience::Two([change.by, change.peer]),
        Body::ContactChange(change) => Audience::One(change.uid),
        Body::Profile(profile) => Audience::One(profile.uid),
        Body::Group(event) => audience_in_group(event),
        Body::Control(_) | Body::Progress => Audience::Nobody,
    }
}

fn audience_in_group(event: &GroupEvent) -> Audience {
    match &event.body {
        GroupBody::Message { .. } => Audience::Members(event.gid),
        GroupBody::ReadPosition { .. } => Audience::One(event.by),
        GroupBody::MessageChange { change, .. } if change.is_for_one() => Audience::One(event.by),
        GroupBody::MessageChange { .. } => Audience::Members(event.gid),
        GroupBody::Change(change) => {
            let named = change.members.iter().map(|member| member.uid);
            Audience::MembersAnd(event.gid, named.collect())
        }
    }
}

/// What is to be said in place of a message of a group, or of a change to one that all members see.
pub(super) fn head_of(event: &RingEvent) -> Option<Head> {
    let Body::Group(group) = &event.event.body else {
        return None;
    };
    let is_for_one = |change: &Change| change.is_for_one();
    let (mid, chg) = match &group.body {
        GroupBody::Message { mid, .. } => (*mid, Chg::ZERO),
        GroupBody::MessageChange { mid, change, chg } if !is_for_one(change) => (*mid, *chg),
        _ => return None,
    };
    Some(Head {
        gid: group.gid,
        offset: event.offset,
        mid,
        chg,
    })
}

/// A message as its author knows it.
pub(super) struct Authored<'a> {
    pub(super) author: UserId,
    pub(super) client_msg_id: &'a ClientMsgId,
    pub(super) mid: Mid,
}

/// `None` where the event is no message.
pub(super) fn message_of(event: &Event) -> Option<Authored<'_>> {
    match &event.body {
        Body::Message(message) => Some(Authored {
            author: message.srcid,
            client_msg_id: &message.client_msg_id,
            mid: message.mid,
        }),
        Body::Group(GroupEvent {
            by,
            body: GroupBody::Message {
                client_msg_id, mid, ..
            },
            ..
        }) => Some(Authored {
            author: *by,
            client_msg_id,
            mid: *mid,
        }),
        _ => None,
    }
}

/// Whether a user is a member before and after an event that names him.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) before: bool,
    pub(super) after: bool,
}

/// What a change of a group says about a user, if it names him.
pub(super) fn change_for(event: &RingEvent, uid: UserId) -> Option<Named> {
    let change = group_change(event)?;
    let member = change.members.iter().find(|member| member.uid == uid)?;
    Some(Named {
        before: !member.joined,
        after: member.role.is_some(),
    })
}

/// Whether a group has ended with this event.
pub(super) fn dissolves(event: &RingEvent) -> bool {
    group_change(event).is_some_and(|change| change.settings.dissolved)
}

fn group_change(event: &RingEvent) -> Option<&GroupChange> {
    match &event.event.body {
        Body::Group(GroupEvent {
            body: GroupBody::Change(change),
            ..
        }) => Some(change),
        _ => None,
    }
}
