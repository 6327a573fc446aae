//! Rows of `contact_<n>`.

use message_store::{ContactDelta, FlagsAt, LastMessage, ReadUpTo};
use schemas::{
    Change, ContactChange, ConversationId, DirectConversation, MessageChange, Mid, Partition,
    TimestampMs,
    event::{Body, Event, Message, ReadPosition},
};

/// The changes of an event: at most two rows.
pub(super) fn rows(offset: i64, event: &Event) -> [Option<ContactDelta>; 2] {
    let Some(ConversationId::Direct(id)) = event.conversation() else {
        return [None, None];
    };
    let mut rows = match &event.body {
        Body::Message(message) => of_message(id, message, event.ts),
        Body::MessageChange(change) => of_message_change(id, change, event.ts, offset),
        Body::ContactChange(change) => [Some(of_contact_change(change, offset)), None],
        Body::ReadPosition(position) => {
            let peer = id.peer_of(position.uid);
            [Some(ContactDelta::new(position.uid, peer)), None]
        }
        Body::Control(_) | Body::Progress | Body::GroupChange(_) | Body::Profile(_) => {
            return [None, None];
        }
    };
    // The reader is the sender of the event.
    for ReadPosition {
        device,
        mid,
        ordinal: n,
        ..
    } in event.body.read_positions()
    {
        if let Some(own) = &mut rows[0] {
            own.read[device] = ReadUpTo { mid, ordinal: n };
        }
    }
    for row in rows.iter_mut().flatten() {
        row.event_offset = offset;
    }
    rows
}

/// Only events of this partition change a row.
pub(super) fn partition(row: &ContactDelta) -> Partition {
    DirectConversation::new(row.uid, row.peer).partition()
}

/// The sender's row and the receiver's. A note to oneself has the first only, so that the message never counts as a peer's.
fn of_message(
    id: DirectConversation,
    message: &Message,
    ts: TimestampMs,
) -> [Option<ContactDelta>; 2] {
    let last = LastMessage::new(message.mid, message.srcid, &message.msg, ts);
    let (srcid, destid) = (message.srcid, id.peer_of(message.srcid));
    let receivers = (srcid != destid).then(|| ContactDelta {
        last: Some(last.clone()),
        peer_ordinal: message.ordinal,
        ..ContactDelta::new(destid, srcid)
    });
    let senders = ContactDelta {
        last: Some(last),
        own_ordinal: message.ordinal,
        ..ContactDelta::new(srcid, destid)
    };
    [Some(senders), receivers]
}

/// The row of the user who makes the change, and the peer's. A change without a number concerns only the user who makes it, and has no row of the peer's.
fn of_message_change(
    id: DirectConversation,
    change: &MessageChange,
    ts: TimestampMs,
    offset: i64,
) -> [Option<ContactDelta>; 2] {
    let (by, peer) = (change.by, id.peer_of(change.by));
    let last = LastMessage::changed(change.mid, change.by, &change.change, change.change_seq, ts);
    let row = |uid, peer| ContactDelta {
        last: last.clone(),
        change_seq: change.change_seq,
        ..ContactDelta::new(uid, peer)
    };
    let mut own = row(by, peer);
    match change.change {
        Change::Hide => drop(own.hidden.insert(change.mid)),
        Change::Clear => own.clear_mid = change.mid,
        _ => {}
    }
    if change.is_own() {
        own.own_pos = offset;
        return [Some(own), None];
    }
    let peers = (by != peer).then(|| row(peer, by));
    [Some(own), peers]
}

fn of_contact_change(change: &ContactChange, offset: i64) -> ContactDelta {
    ContactDelta {
        flags: Some(FlagsAt {
            event_offset: offset,
            flags: change.flags,
        }),
        deleted_mid: change.deleted.map_or(Mid::ZERO, |deleted| deleted.mid),
        ..ContactDelta::new(change.uid, change.peer)
    }
}

#[cfg(test)]
mod tests {
    use schemas::{
        ChangeSeq, ContactFlags, DeletedContact, Ordinal, PerDevice, Recipient,
        event::{Source, SourceOffset},
    };

    use super::*;

    const FIRST: Mid = Mid::ZERO.next();

    fn rows_of(body: Body) -> Vec<ContactDelta> {
        let src = Source {
            offset: SourceOffset::START,
            leader_epoch: -1,
        };
        let event = Event {
            src,
            ts: TimestampMs(7),
            body,
            command: None,
            words: None,
        };
        rows(5, &event).into_iter().flatten().collect()
    }

    fn rows_of_message(srcid: i64, destid: i64) -> Vec<ContactDelta> {
        let message = Message {
            srcid: srcid.try_into().unwrap(),
            to: Recipient::User(destid.try_into().unwrap()),
            client_msg_id: "c".to_owned().try_into().unwrap(),
            msg: "hello".to_owned(),
            mid: FIRST,
            ordinal: Ordinal::ZERO.next(),
        };
        rows_of(Body::Message(message))
    }

    fn rows_of_change(by: i64, peer: i64, change: Change) -> Vec<ContactDelta> {
        rows_of_numbered(by, peer, change, ChangeSeq::ZERO.next())
    }

    fn rows_of_numbered(
        by: i64,
        peer: i64,
        change: Change,
        change_seq: ChangeSeq,
    ) -> Vec<ContactDelta> {
        rows_of(Body::MessageChange(MessageChange {
            by: by.try_into().unwrap(),
            to: Recipient::User(peer.try_into().unwrap()),
            mid: FIRST,
            change,
            change_seq,
            ordinal: None,
        }))
    }

    #[test]
    fn both_sides_have_a_row_and_count_their_own_sends() {
        let [own, peers] = rows_of_message(1, 2).try_into().unwrap();
        let users = |contact: &ContactDelta| (contact.uid.get(), contact.peer.get());
        assert_eq!((users(&own), users(&peers)), ((1, 2), (2, 1)));
        assert_eq!((own.own_ordinal.get(), own.peer_ordinal.get()), (1, 0));
        assert_eq!((peers.own_ordinal.get(), peers.peer_ordinal.get()), (0, 1));
    }

    #[test]
    fn a_note_to_oneself_is_one_row_and_no_peers_message() {
        let [own] = rows_of_message(1, 1).try_into().unwrap();
        assert_eq!((own.own_ordinal.get(), own.peer_ordinal.get()), (1, 0));
    }

    #[test]
    fn both_sides_see_that_a_message_was_changed() {
        for row in rows_of_change(2, 1, Change::Edit("new".to_owned())) {
            let last = row.last.unwrap();
            assert_eq!((last.preview.as_str(), last.srcid.get()), ("new", 2));
            assert_eq!(
                (row.change_seq, row.event_offset, row.read),
                (last.change_seq, 5, PerDevice::default())
            );
        }
        assert_eq!(rows_of_change(2, 1, Change::Recall).len(), 2);
        assert_eq!(rows_of_change(1, 1, Change::Recall).len(), 1);
    }

    #[test]
    fn what_one_user_hides_or_clears_the_other_still_sees() {
        let [own, peers] = rows_of_change(2, 1, Change::Hide).try_into().unwrap();
        assert_eq!((own.hidden.len(), peers.hidden.len()), (1, 0));
        assert_eq!(
            (own.last, own.change_seq, peers.change_seq),
            (None, peers.change_seq, own.change_seq)
        );
        let [own, peers] = rows_of_change(2, 1, Change::Clear).try_into().unwrap();
        assert_eq!((own.clear_mid, peers.clear_mid), (FIRST, Mid::ZERO));
        let cleared = ReadUpTo {
            mid: FIRST,
            ordinal: None,
        };
        assert_eq!(own.read, PerDevice::from_fn(|_| cleared));
        assert_eq!(peers.read, PerDevice::default());
    }

    #[test]
    fn what_has_no_number_is_no_business_of_the_other() {
        for (change, hidden, clear_mid) in [(Change::Hide, 1, Mid::ZERO), (Change::Clear, 0, FIRST)]
        {
            let [own] = rows_of_numbered(2, 1, change, ChangeSeq::ZERO)
                .try_into()
                .unwrap();
            assert_eq!((own.uid.get(), own.hidden.len()), (2, hidden));
            assert_eq!(
                (own.clear_mid, own.change_seq),
                (clear_mid, ChangeSeq::ZERO)
            );
            assert_eq!((own.own_pos, own.event_offset), (5, 5));
        }
    }

    #[test]
    fn who_deletes_a_contact_has_read_it() {
        let flags = ContactFlags {
            muted: true,
            ..ContactFlags::default()
        };
        let n = Ordinal::ZERO.next();
        let [own] = rows_of(Body::ContactChange(ContactChange {
            uid: 1.try_into().unwrap(),
            peer: 2.try_into().unwrap(),
            flags,
            deleted: Some(DeletedContact {
                mid: FIRST,
                ordinal: n,
            }),
        }))
        .try_into()
        .unwrap();
        let set = FlagsAt {
            event_offset: 5,
            flags,
        };
        assert_eq!((own.flags, own.deleted_mid), (Some(set), FIRST));
        let read = ReadUpTo {
            mid: FIRST,
            ordinal: Some(n),
        };
        assert_eq!(own.read, PerDevice::from_fn(|_| read));
    }
}
