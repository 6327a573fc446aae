//! Events for tests.

use std::sync::Arc;

use schemas::{
    Change, EventPosition, GroupChange, GroupChangeKind, GroupMember, GroupRole, GroupSettings,
    MessageChange, Mid, Ordinal, Partition, Recipient, TimestampMs, UserId,
    event::{Body, Event, Message, Source, SourceOffset},
};

use super::RingEvent;

pub(crate) fn uid(uid: i64) -> UserId {
    UserId::try_from(uid).unwrap()
}

/// An event at this offset of both logs.
pub(crate) fn event(partition: Partition, offset: i64, body: Body) -> RingEvent {
    let src = Source {
        offset: SourceOffset { epoch: 0, offset },
        leader_epoch: 0,
    };
    let event = Event {
        src,
        ts: TimestampMs(offset),
        body,
        command: None,
        words: None,
    };
    RingEvent::new(EventPosition { partition, offset }, event, 100)
}

pub(crate) fn message_body(from: i64, to: i64, id: &str, mid: i64) -> Body {
    said(from, Recipient::User(uid(to)), id, mid)
}

pub(crate) fn group_message_body(gid: i64, by: i64, id: &str, mid: i64) -> Body {
    said(by, Recipient::Group(gid.try_into().unwrap()), id, mid)
}

fn said(by: i64, to: Recipient, id: &str, mid: i64) -> Body {
    Body::Message(Message {
        srcid: uid(by),
        to,
        client_msg_id: id.to_owned().try_into().unwrap(),
        msg: "text".to_owned(),
        mid: Mid::try_from(mid).unwrap(),
        ordinal: Ordinal::ZERO,
    })
}

/// The settings of an open group of user 1.
pub(crate) fn group_settings() -> GroupSettings {
    GroupSettings {
        name: "Lunch".to_owned(),
        owner: uid(1),
        open: true,
        whole_history: false,
        muted: false,
        dissolved: false,
    }
}

/// A user joins, or leaves.
pub(crate) fn member_body(gid: i64, who: i64, joins: bool, last_mid: i64) -> Body {
    let kind = match joins {
        true => GroupChangeKind::Join,
        false => GroupChangeKind::Leave,
    };
    Body::GroupChange(Box::new(GroupChange {
        gid: gid.try_into().unwrap(),
        by: uid(who),
        kind,
        settings: group_settings(),
        member_count: 1,
        last_mid: Mid::try_from(last_mid).unwrap(),
        members: vec![GroupMember {
            uid: uid(who),
            role: joins.then_some(GroupRole::Member),
            muted: false,
            joined: joins,
        }],
    }))
}

/// The user 1 dissolves a group.
pub(crate) fn dissolve_body(gid: i64) -> Body {
    let mut body = dissolved(member_body(gid, 1, false, 0));
    if let Body::GroupChange(change) = &mut body {
        change.kind = GroupChangeKind::Dissolve;
        change.members.clear();
    }
    body
}

/// A change of a group once it is dissolved.
pub(crate) fn dissolved(mut body: Body) -> Body {
    if let Body::GroupChange(change) = &mut body {
        change.settings.dissolved = true;
        change.member_count = 0;
    }
    body
}

/// The user 1 recalls the first message of a group.
pub(crate) fn recall_body(gid: i64, change_seq: i64) -> Body {
    message_change_body(gid, change_seq, Change::Recall)
}

/// A message in the first partition, whatever partition it belongs to.
pub(crate) fn message(offset: i64, from: i64, to: i64) -> Arc<RingEvent> {
    let body = message_body(from, to, &format!("{offset}"), offset + 1);
    Arc::new(event(Partition::FIRST, offset, body))
}

pub(crate) fn group_message(offset: i64, gid: i64, mid: i64) -> Arc<RingEvent> {
    let body = group_message_body(gid, 1, &format!("{offset}"), mid);
    in_group(offset, gid, body)
}

/// The user 1 changes the first message of a group.
pub(crate) fn message_change(
    offset: i64,
    gid: i64,
    change_seq: i64,
    change: Change,
) -> Arc<RingEvent> {
    in_group(offset, gid, message_change_body(gid, change_seq, change))
}

fn message_change_body(gid: i64, change_seq: i64, change: Change) -> Body {
    Body::MessageChange(MessageChange {
        by: uid(1),
        to: Recipient::Group(gid.try_into().unwrap()),
        mid: Mid::ZERO.next(),
        change,
        change_seq: change_seq.try_into().unwrap(),
        ordinal: None,
    })
}

/// The user 1 joins.
pub(crate) fn join(offset: i64, gid: i64, last_mid: i64) -> Arc<RingEvent> {
    in_group(offset, gid, member_body(gid, 1, true, last_mid))
}

fn in_group(offset: i64, gid: i64, body: Body) -> Arc<RingEvent> {
    let partition = Partition::try_from(gid % 64).unwrap();
    Arc::new(event(partition, offset, body))
}
