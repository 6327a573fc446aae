//! A fast decoder for the protobuf that our own encoder writes: every field at most once, in the order of the field numbers, and no
//! unknown fields. Such an encoding is called canonical here.
//!
//! Each function returns `None` for any other encoding, and its caller uses prost instead. If it returns a value, prost would return the same. Nearly
//! all values on the topics are canonical, and every consumer decodes every one of them.

use crate::proto::{
    AppliedCommand, DeviceClass, IngestEvent, MessageSequenced, ReadPositionMoved, SendMessage,
    SequencedEvent, Source, WordAction, WordVerdict, ingest_event, sequenced_event,
};

/// Decodes an event that is a message or a read position.
pub(crate) fn event(value: &[u8]) -> Option<SequencedEvent> {
    let mut fields = Fields(value);
    let src = match fields.message(1)? {
        Some(src) => Some(source(src)?),
        None => None,
    };
    let event = match fields.message(2)? {
        Some(message) => sequenced_event::Event::Message(message_sequenced(message)?),
        None => sequenced_event::Event::ReadPosition(read_position(fields.message(3)??)?),
    };
    let event = Some(event);
    let command = applied_command(&mut fields)?;
    let words = words(&mut fields)?;
    fields.end(SequencedEvent {
        src,
        event,
        command,
        words,
    })
}

/// Decodes an `InboundCommand` that is a send, and the verdict of the word filter.
pub(crate) fn send(value: &[u8]) -> Option<(SendMessage, Option<WordVerdict>)> {
    let mut fields = Fields(value);
    let send = send_message(fields.message(1)??)?;
    let words = words(&mut fields)?;
    fields.end((send, words))
}

/// Decodes an item of a batch that is a message.
pub(crate) fn ingest_event(item: &[u8]) -> Option<IngestEvent> {
    let mut fields = Fields(item);
    let send = send_message(fields.message(1)??)?;
    let event = Some(ingest_event::Event::Message(send));
    fields.end(IngestEvent {
        event,
        command_id: String::new(),
    })
}

fn applied_command(fields: &mut Fields<'_>) -> Option<Option<AppliedCommand>> {
    let Some(mut command) = fields.message(13)? else {
        return Some(None);
    };
    let id = command.text(1)?.to_owned();
    let content = command.fixed32(2)?;
    command.end(Some(AppliedCommand { id, content }))
}

fn words(fields: &mut Fields<'_>) -> Option<Option<WordVerdict>> {
    let Some(mut verdict) = fields.message(14)? else {
        return Some(None);
    };
    let action = WordAction::try_from(verdict.varint(1)? as i32).ok()?.into();
    let dictionary = verdict.fixed64(2)?;
    verdict.end(Some(WordVerdict { action, dictionary }))
}

fn source(mut fields: Fields<'_>) -> Option<Source> {
    let source = Source {
        // As in prost, a number above 32 bits loses its upper half.
        epoch: fields.varint(1)? as u32,
        offset: fields.varint(2)?.cast_signed(),
        leader_epoch: fields.varint(3)? as i32,
    };
    fields.end(source)
}

fn message_sequenced(mut fields: Fields<'_>) -> Option<MessageSequenced> {
    let message = MessageSequenced {
        srcid: fields.varint(1)?.cast_signed(),
        destid: fields.varint(2)?.cast_signed(),
        client_msg_id: fields.text(3)?.to_owned(),
        msg: fields.text(4)?.to_owned(),
        mid: fields.varint(5)?.cast_signed(),
        n: fields.varint(6)?.cast_signed(),
        gid: fields.varint(7)?.cast_signed(),
    };
    fields.end(message)
}

fn read_position(mut fields: Fields<'_>) -> Option<ReadPositionMoved> {
    let position = ReadPositionMoved {
        uid: fields.varint(1)?.cast_signed(),
        peer: fields.varint(2)?.cast_signed(),
        device: DeviceClass::try_from(fields.varint(3)? as i32).ok()?.into(),
        mid: fields.varint(4)?.cast_signed(),
        n: fields.optional_varint(5)?.map(u64::cast_signed),
        gid: fields.varint(6)?.cast_signed(),
    };
    fields.end(position)
}

fn send_message(mut fields: Fields<'_>) -> Option<SendMessage> {
    let send = SendMessage {
        srcid: fields.varint(1)?.cast_signed(),
        destid: fields.varint(2)?.cast_signed(),
        client_msg_id: fields.text(3)?.to_owned(),
        msg: fields.text(4)?.to_owned(),
        by_user: fields.varint(5)? != 0,
        gid: fields.varint(6)?.cast_signed(),
    };
    fields.end(send)
}

/// The fields of a message that are not read yet. Every method returns `None` if the encoding is not canonical.
struct Fields<'a>(&'a [u8]);

const VARINT: u8 = 0;
const FIXED_64: u8 = 1;
const LENGTH_DELIMITED: u8 = 2;
const FIXED_32: u8 = 5;

impl<'a> Fields<'a> {
    /// A number; 0 if the field is absent.
    fn varint(&mut self, field: u8) -> Option<u64> {
        Some(self.optional_varint(field)?.unwrap_or(0))
    }

    fn optional_varint(&mut self, field: u8) -> Option<Option<u64>> {
        if self.next_is(field, VARINT) {
            self.raw_varint().map(Some)
        } else {
            Some(None)
        }
    }

    /// Eight bytes; 0 if the field is absent.
    fn fixed64(&mut self, field: u8) -> Option<u64> {
        self.fixed(field, FIXED_64).map(u64::from_le_bytes)
    }

    /// Four bytes; 0 if the field is absent.
    fn fixed32(&mut self, field: u8) -> Option<u32> {
        self.fixed(field, FIXED_32).map(u32::from_le_bytes)
    }

    /// `N` bytes, all 0 if the field is absent.
    fn fixed<const N: usize>(&mut self, field: u8, wire_type: u8) -> Option<[u8; N]> {
        if !self.next_is(field, wire_type) {
            return Some([0; N]);
        }
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    /// A text; empty if the field is absent.
    fn text(&mut self, field: u8) -> Option<&'a str> {
        match self.bytes(field)? {
            Some(bytes) => str::from_utf8(bytes).ok(),
            None => Some(""),
        }
    }

    /// A nested message, if the field is present.
    fn message(&mut self, field: u8) -> Option<Option<Self>> {
        Some(self.bytes(field)?.map(Fields))
    }

    fn bytes(&mut self, field: u8) -> Option<Option<&'a [u8]>> {
        if !self.next_is(field, LENGTH_DELIMITED) {
            return Some(None);
        }
        let length = usize::try_from(self.raw_varint()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(Some(bytes))
    }

    /// `decoded`, if no bytes are left.
    fn end<T>(self, decoded: T) -> Option<T> {
        self.0.is_empty().then_some(decoded)
    }

    /// Consumes the key of a field, if it comes next. Fields below 16 have a key of one byte.
    fn next_is(&mut self, field: u8, wire_type: u8) -> bool {
        match self.0.split_first() {
            Some((key, rest)) if *key == field << 3 | wire_type => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    fn raw_varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for (index, byte) in self.0.iter().enumerate().take(10) {
            // The tenth byte can hold the highest bit only.
            if index == 9 && *byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if *byte < 0x80 {
                self.0 = &self.0[index + 1..];
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::{option, prelude::*, sample::Index};
    use prost::Message as _;

    use super::*;
    use crate::proto::{InboundCommand, inbound_command};

    fn any_source() -> impl Strategy<Value = Option<Source>> {
        option::of((any::<u32>(), any::<i64>(), any::<i32>()).prop_map(
            |(epoch, offset, leader_epoch)| Source {
                epoch,
                offset,
                leader_epoch,
            },
        ))
    }

    fn any_event() -> impl Strategy<Value = SequencedEvent> {
        let numbers = (any::<i64>(), 0..9_i64, any::<i64>(), 0..9_i64, 0..3_i64);
        let message = (numbers, ".{0,9}", ".{0,300}").prop_map(|(numbers, id, msg)| {
            sequenced_event::Event::Message(MessageSequenced {
                srcid: numbers.0,
                destid: numbers.1,
                client_msg_id: id,
                msg,
                mid: numbers.2,
                n: numbers.3,
                gid: numbers.4,
            })
        });
        let numbers = (any::<i64>(), 0..3_i64, 0..4_i32, any::<i64>(), 0..3_i64);
        let position = (numbers, option::of(any::<i64>())).prop_map(|(numbers, n)| {
            sequenced_event::Event::ReadPosition(ReadPositionMoved {
                uid: numbers.0,
                peer: numbers.1,
                device: numbers.2,
                mid: numbers.3,
                n,
                gid: numbers.4,
            })
        });
        let event = prop_oneof![message, position];
        let all = (any_source(), event, any_command(), any_words());
        all.prop_map(|(src, event, command, words)| SequencedEvent {
            src,
            event: Some(event),
            command,
            words,
        })
    }

    fn any_command() -> impl Strategy<Value = Option<AppliedCommand>> {
        let command = (".{0,9}", any::<u32>());
        option::of(command.prop_map(|(id, content)| AppliedCommand { id, content }))
    }

    fn any_words() -> impl Strategy<Value = Option<WordVerdict>> {
        let verdict = (0..3_i32, any::<u64>());
        option::of(verdict.prop_map(|(action, dictionary)| WordVerdict { action, dictionary }))
    }

    fn any_send() -> impl Strategy<Value = (SendMessage, Option<WordVerdict>)> {
        let users = (any::<i64>(), 0..3_i64, any::<bool>(), 0..3_i64);
        let all = (users, ".{0,9}", ".{0,300}", any_words());
        all.prop_map(|((srcid, destid, by_user, gid), id, msg, words)| {
            let send = SendMessage {
                srcid,
                destid,
                client_msg_id: id,
                msg,
                by_user,
                gid,
            };
            (send, words)
        })
    }

    fn inbound((send, words): (SendMessage, Option<WordVerdict>)) -> InboundCommand {
        InboundCommand {
            command: Some(inbound_command::Command::SendMessage(send)),
            command_id: String::new(),
            words,
        }
    }

    /// `value` with some bytes changed, removed or repeated.
    fn mangled(mut value: Vec<u8>, changes: &[(Index, u8)]) -> Vec<u8> {
        for (at, byte) in changes {
            if value.is_empty() {
                break;
            }
            let at = at.index(value.len());
            match byte % 4 {
                0 => drop(value.remove(at)),
                1 => value.insert(at, *byte),
                2 => value.extend_from_within(at..),
                _ => value[at] = *byte,
            }
        }
        value
    }

    proptest! {
        #[test]
        fn every_value_of_our_encoder_is_decoded(event in any_event(), send in any_send()) {
            let has_unknown_device = matches!(
                &event.event,
                Some(sequenced_event::Event::ReadPosition(position)) if position.device > 2
            );
            if !has_unknown_device {
                prop_assert_eq!(super::event(&event.encode_to_vec()), Some(event));
            }
            let value = inbound(send.clone()).encode_to_vec();
            prop_assert_eq!(super::send(&value), Some(send));
        }

        #[test]
        fn what_is_decoded_is_what_prost_decodes(
            event in any_event(),
            send in any_send(),
            changes in proptest::collection::vec(any::<(Index, u8)>(), 0..4),
        ) {
            let value = mangled(event.encode_to_vec(), &changes);
            if let Some(read) = super::event(&value) {
                prop_assert_eq!(SequencedEvent::decode(&*value), Ok(read));
            }
            let value = mangled(inbound(send).encode_to_vec(), &changes);
            if let Some(read) = super::send(&value) {
                prop_assert_eq!(InboundCommand::decode(&*value), Ok(inbound(read)));
            }
            // A send is the first field of an ingest event, too.
            if let Some(read) = ingest_event(&value) {
                prop_assert_eq!(IngestEvent::decode(&*value), Ok(read));
            }
        }
    }
}
