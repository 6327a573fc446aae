//! Events for tests.

use std::sync::Arc;

use schemas::{
    GroupBody, GroupEvent, Mid, Ordinal, Partition, TimestampMs, UserId,
    event::{Body, Event, Message, Source, SourceOffset},
};

use super::RingEvent;

pub(crate) fn uid(uid: i64) -> UserId {
    UserId::try_from(uid).unwrap()
}

pub(crate) fn event(partition: i64, offset: i64, body: Body) -> RingEvent {
    let src = Source {
        offset: SourceOffset { epoch: 0, offset },
        leader_epoch: 0,
    };
    let event = Event {
        src,
        ts: TimestampMs(offset),
        body,
        words: None,
    };
    RingEvent::new(Partition::try_from(partition).unwrap(), offset, event, 100)
}

/// Whatever partition it belongs to, it is in the first.
pub(crate) fn message(offset: i64, from: i64, to: i64) -> Arc<RingEvent> {
    let message = Message {
        srcid: uid(from),
        destid: uid(to),
        client_msg_id: format!("{offset}").try_into().unwrap(),
        msg: "text".to_owned(),
        mid: Mid::try_from(offset + 1).unwrap(),
        n: Ordinal::ZERO,
    };
    Arc::new(event(0, offset, Body::Message(message)))
}

pub(crate) fn group_message(offset: i64, gid: i64, mid: i64) -> Arc<RingEvent> {
    let group = GroupEvent {
        gid: gid.try_into().unwrap(),
        by: uid(1),
        body: GroupBody::Message {
            client_msg_id: format!("{offset}").try_into().unwrap(),
            msg: "text".to_owned(),
            mid: Mid::try_from(mid).unwrap(),
        },
    };
    Arc::new(event(gid % 64, offset, Body::Group(group)))
}
