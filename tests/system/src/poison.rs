//! Records that our services would not write.

use anyhow::Result;
use prost::Message as _;
use schemas::{
    Mid, Ordinal, Recipient, TimestampMs,
    event::{Body, Event, Message, Source, SourceOffset},
    proto::{
        ChangeContact, ChangeGroup, ChangeKind, ChangeMessage, Control, DeviceClass, GroupBy,
        InboundCommand, ReadAck, SendMessage, SequencerSnapshot, SetProfile, SnapshotChunk,
        change_group::Action, inbound_command::Command,
    },
};

/// Values that are invalid on every topic.
pub const JUNK: [&[u8]; 3] = [b"", b"junk", &[0xff; 1_000]];

/// Values for `chat.inbound` in the partition of a conversation, and why each is refused.
pub fn commands(from: i64, to: i64) -> Vec<(Vec<u8>, &'static str)> {
    let send = |change: fn(&mut SendMessage)| {
        let mut send = SendMessage {
            by_user: false,
            gid: 0,
            srcid: from,
            destid: to,
            client_msg_id: "poison".to_owned(),
            msg: "poison".to_owned(),
        };
        change(&mut send);
        encoded(Command::SendMessage(send))
    };
    let ack = |change: fn(&mut ReadAck)| {
        let mut ack = ReadAck {
            uid: to,
            peer: from,
            device: DeviceClass::Pc.into(),
            mid: Some(1),
            gid: 0,
        };
        change(&mut ack);
        encoded(Command::ReadAck(ack))
    };
    let change = |change: fn(&mut ChangeMessage)| {
        let mut recall = ChangeMessage {
            by: from,
            peer: to,
            mid: 1,
            gid: 0,
            kind: ChangeKind::Recall.into(),
            msg: String::new(),
        };
        change(&mut recall);
        encoded(Command::ChangeMessage(recall))
    };
    let asks_for_nothing = ChangeContact {
        uid: from,
        peer: to,
        ..ChangeContact::default()
    };
    let whole = send(|_| ());
    let text = whole.windows(6).rposition(|bytes| bytes == b"poison");
    let mut no_utf8 = whole.clone();
    no_utf8[text.unwrap_or_default()] = 0xff;
    let endless = Control {
        dedup_window_ms: Some(i64::MAX),
        ..Control::default()
    };
    let malformed = [
        b"junk".to_vec(),
        Vec::new(),
        whole[..whole.len() - 1].to_vec(),
        no_utf8,
        send(|send| send.srcid = 0),
        send(|send| send.destid = i64::MIN),
        send(|send| send.msg.clear()),
        send(|send| send.msg.push('\0')),
        send(|send| send.client_msg_id.clear()),
        send(|send| send.client_msg_id.push('\n')),
        ack(|ack| ack.device = 7),
        ack(|ack| ack.mid = Some(0)),
        change(|change| change.mid = 0),
        change(|change| change.kind = 0),
        change(|change| change.msg.push('x')),
        encoded(Command::ChangeContact(asks_for_nothing)),
        send(|send| send.gid = 5),
        in_group(from, from + to, None),
        in_group(from, 0, Some(Action::Join(GroupBy {}))),
        in_group(from, from + to, Some(Action::Rename(String::new()))),
        profile(from, ""),
    ];
    let rename = Some(Action::Rename("poison".to_owned()));
    let others = [
        (send(|send| send.msg = "x".repeat(90_000)), "too-large"),
        (send(|send| send.destid += 1), "wrong-partition"),
        (ack(|ack| ack.peer += 1), "wrong-partition"),
        (encoded(Command::Control(endless)), "invalid-control"),
        (in_group(from, from + to, rename), "not-a-member"),
        (profile(from + to + 1, "poison"), "wrong-partition"),
    ];
    let malformed = malformed.into_iter().map(|value| (value, "malformed"));
    malformed.chain(others).collect()
}

fn in_group(by: i64, gid: i64, action: Option<Action>) -> Vec<u8> {
    encoded(Command::ChangeGroup(ChangeGroup {
        gid,
        by,
        action,
        by_user: false,
    }))
}

fn profile(uid: i64, nick: &str) -> Vec<u8> {
    encoded(Command::SetProfile(SetProfile {
        uid,
        nick: nick.to_owned(),
        ..SetProfile::default()
    }))
}

fn encoded(command: Command) -> Vec<u8> {
    let command = Some(command);
    let value = InboundCommand {
        command,
        ..InboundCommand::default()
    };
    value.encode_to_vec()
}

/// Values for `chat.events` in the partition of a conversation, and why each is skipped.
///
/// # Errors
/// If an id is invalid.
pub fn events(from: i64, to: i64) -> Result<Vec<(Vec<u8>, &'static str)>> {
    let message = Message {
        srcid: from.try_into()?,
        to: Recipient::User((to + 1).try_into()?),
        client_msg_id: "elsewhere".to_owned().try_into()?,
        msg: "elsewhere".to_owned(),
        mid: Mid::ZERO.next(),
        ordinal: Ordinal::ZERO.next(),
    };
    let src = Source {
        offset: SourceOffset {
            epoch: 0,
            offset: 1_000_000,
        },
        leader_epoch: 0,
    };
    let elsewhere = Event {
        src,
        ts: TimestampMs(1),
        body: Body::Message(message),
        command: None,
        words: None,
    };
    let whole = elsewhere.encode();
    Ok(vec![
        (b"junk".to_vec(), "malformed"),
        (Vec::new(), "malformed"),
        (whole[..whole.len() - 1].to_vec(), "malformed"),
        (vec![0xff; 50_000], "malformed"),
        (whole, "wrong-partition"),
    ])
}

/// A snapshot in one chunk, as a later version of the program would write it; `None` for a snapshot in several chunks.
#[must_use]
pub fn snapshot_of_another_version(value: &[u8]) -> Option<Vec<u8>> {
    let mut chunk = SnapshotChunk::decode(value).ok()?;
    let mut snapshot = SequencerSnapshot::decode(chunk.payload.as_slice()).ok()?;
    snapshot.format_version += 1;
    chunk.payload = snapshot.encode_to_vec();
    chunk.checksum = blake3::hash(&chunk.payload).as_bytes().to_vec();
    (chunk.count == 1).then(|| chunk.encode_to_vec())
}
