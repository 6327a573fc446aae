//! Checks every field of every command and event against the `.proto` files. The reference is prost-reflect, which knows the files by their
//! descriptors and none of our types.

mod commands;
mod coverage;
mod drawn;
mod events;

use std::sync::LazyLock;

use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, ReflectMessage as _};
use serde_json::Value;

use crate::{
    Change, ChangeSeq, FILE_DESCRIPTOR_SET, GroupId, Mid, Ordinal, Recipient, TimestampMs, UserId,
    WordVerdict,
    command::InboundValue,
    event::Event,
    fast_decoder,
    proto::{self, inbound_command, sequenced_event},
};

/// Field 1000 with the number 1, which no message has. The fast decoder leaves such a value to prost.
const UNKNOWN_FIELD: [u8; 3] = [0xc0, 0x3e, 1];
const TS: TimestampMs = TimestampMs(5);

static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap());

fn descriptor(message: &str) -> MessageDescriptor {
    POOL.get_message_by_name(&format!("chat.v1.{message}"))
        .unwrap()
}

/// A message from its JSON form, with the names of the `.proto` files.
fn message(name: &str, fields: &Value) -> DynamicMessage {
    DynamicMessage::deserialize(descriptor(name), fields).unwrap()
}

/// Asserts that the fields of a value are those of `wire`.
fn is_written(value: &[u8], wire: &DynamicMessage) {
    let text = |value: &[u8]| {
        let message = DynamicMessage::decode(wire.descriptor(), value);
        message.unwrap().to_string()
    };
    assert_eq!(text(value), text(&wire.encode_to_vec()));
}

/// Reads a command; if it is a send, with the fast decoder too.
fn read_command(wire: &DynamicMessage) -> InboundValue {
    let value = wire.encode_to_vec();
    let fast = match proto::InboundCommand::decode(&*value).unwrap() {
        proto::InboundCommand {
            command: Some(inbound_command::Command::SendMessage(send)),
            command_id,
            words,
        } if command_id.is_empty() => Some((send, words)),
        _ => None,
    };
    assert_eq!(fast_decoder::send(&value), fast, "{wire}");
    let read = InboundValue::parse(&value);
    let by_prost = InboundValue::parse(&[&value[..], &UNKNOWN_FIELD].concat());
    assert_eq!(read, by_prost, "{wire}");
    read.unwrap_or_else(|e| panic!("{e}: {wire}"))
}

/// Reads an event; if it is a message or a read position, with the fast decoder too.
fn read_event(wire: &DynamicMessage) -> Event {
    use sequenced_event::Event::{Message, ReadPosition};

    let value = wire.encode_to_vec();
    let by_prost = proto::SequencedEvent::decode(&*value).unwrap();
    let is_frequent = matches!(by_prost.event, Some(Message(_) | ReadPosition(_)));
    let fast = is_frequent.then_some(by_prost);
    assert_eq!(fast_decoder::event(&value), fast, "{wire}");
    let read = Event::parse(&value, TS);
    let by_prost = Event::parse(&[&value[..], &UNKNOWN_FIELD].concat(), TS);
    assert_eq!(read, by_prost, "{wire}");
    read.unwrap_or_else(|e| panic!("{e}: {wire}"))
}

/// The kinds of changes to messages as the `.proto` files name them, with the text of those that have one.
fn changes() -> [(&'static str, &'static str, Change); 6] {
    [
        ("CHANGE_KIND_RECALL", "", Change::Recall),
        ("CHANGE_KIND_DELETE", "", Change::Delete),
        ("CHANGE_KIND_EDIT", "text", Change::Edit("text".to_owned())),
        ("CHANGE_KIND_HIDE", "", Change::Hide),
        ("CHANGE_KIND_CLEAR", "", Change::Clear),
        ("CHANGE_KIND_REACT", "👍", Change::React("👍".to_owned())),
    ]
}

fn user(uid: i64) -> UserId {
    uid.try_into().unwrap()
}

fn to_user(uid: i64) -> Recipient {
    Recipient::User(user(uid))
}

fn to_group(gid: i64) -> Recipient {
    Recipient::Group(group(gid))
}

fn group(gid: i64) -> GroupId {
    gid.try_into().unwrap()
}

fn mid(mid: i64) -> Mid {
    mid.try_into().unwrap()
}

fn change_seq(change_seq: i64) -> ChangeSeq {
    change_seq.try_into().unwrap()
}

fn ordinal(n: i64) -> Ordinal {
    n.try_into().unwrap()
}
