//! What a redrive can do for a dead letter.

use schemas::{
    ClientMsgId, ConversationId, Mid, UserId,
    command::{Command, ReadAck, SendMessage},
    dead_letter::Reason,
};
use serde_json::{Value, json};

use super::letters::DeadLetter;

/// What tells one send from another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SendKey {
    pub(super) conversation: ConversationId,
    pub(super) srcid: UserId,
    pub(super) client_msg_id: ClientMsgId,
}

/// What becomes of a letter whose original is posted once more.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Prospect {
    /// A message, which may have been sequenced since.
    Message { key: SendKey, line: Value },
    /// A read position: read again it moves nothing back.
    ReadAck { line: Value },
    /// The text says why it would be of no use, or do harm.
    Hopeless(&'static str),
}

impl Prospect {
    /// Of an original on the topic of this full name, `inbound`.
    pub(super) fn of(letter: &DeadLetter, inbound: &str) -> Self {
        let told = &letter.told;
        if told.topic != inbound {
            return Self::Hopeless("only what producers sent can be sent again");
        }
        if told.cut_from.is_some() {
            return Self::Hopeless("only its beginning was kept");
        }
        if told.reason == Reason::Conflict {
            return Self::Hopeless("its client_msg_id is another message's: it needs a new one");
        }
        let value = letter.record.value.as_deref().unwrap_or_default();
        match Command::parse(value) {
            Ok(Command::Send(send)) => Self::message(send),
            Ok(Command::ReadAck(ack)) => Self::read_ack(ack),
            Ok(Command::Control(_)) => Self::Hopeless("rules are changed by operators only"),
            Err(_) => Self::Hopeless("it is no command"),
        }
    }

    fn message(send: SendMessage) -> Self {
        let conversation = send.conversation();
        let SendMessage {
            srcid,
            destid,
            client_msg_id,
            msg,
        } = send;
        let line = json!({
            "message": { "srcid": srcid, "destid": destid, "client_msg_id": client_msg_id, "msg": msg }
        });
        let key = SendKey {
            conversation,
            srcid,
            client_msg_id,
        };
        Self::Message { key, line }
    }

    fn read_ack(ack: ReadAck) -> Self {
        let ReadAck {
            uid,
            peer,
            device,
            mid,
        } = ack;
        let Some(mid) = mid.map(Mid::get) else {
            return Self::Hopeless(
                "it means all messages of its time, and would take in those since",
            );
        };
        let line = json!({
            "read_ack": { "uid": uid, "peer": peer, "device": device, "mid": mid }
        });
        Self::ReadAck { line }
    }
}

#[cfg(test)]
mod tests {
    use schemas::DeviceClass;

    use super::{super::letters::tests::letter, *};

    const INBOUND: &str = "chat.inbound";

    fn user(uid: i64) -> UserId {
        uid.try_into().unwrap()
    }

    fn send() -> Command {
        Command::Send(SendMessage {
            srcid: user(i64::MAX),
            destid: user(1),
            client_msg_id: "c-1".to_owned().try_into().unwrap(),
            msg: "\"hi\"\n".to_owned(),
        })
    }

    fn ack(mid: Option<Mid>) -> Command {
        Command::ReadAck(ReadAck {
            uid: user(1),
            peer: user(2),
            device: DeviceClass::Mobile,
            mid,
        })
    }

    fn prospect(reason: Reason, command: Command) -> Prospect {
        Prospect::of(&letter(INBOUND, reason, &command.encode()), INBOUND)
    }

    #[test]
    fn a_message_goes_through_the_door_as_it_was() {
        let Prospect::Message { key, line } = prospect(Reason::WrongPartition, send()) else {
            panic!("it is a message");
        };
        assert_eq!(key.srcid, user(i64::MAX));
        let message = json!({
            "srcid": "9223372036854775807", "destid": "1", "client_msg_id": "c-1", "msg": "\"hi\"\n"
        });
        assert_eq!(line, json!({ "message": message }));
    }

    #[test]
    fn a_read_position_needs_its_number() {
        let mid = Some(Mid::ZERO.next());
        let line = json!({ "read_ack": { "uid": "1", "peer": "2", "device": "mobile", "mid": 1 } });
        let found = prospect(Reason::WrongPartition, ack(mid));
        assert_eq!(found, Prospect::ReadAck { line });
        let latest = prospect(Reason::WrongPartition, ack(None));
        assert!(matches!(latest, Prospect::Hopeless(_)), "{latest:?}");
    }

    #[test]
    fn what_cannot_be_mended_is_left() {
        let control = Command::Control(schemas::command::Control::default());
        for found in [
            prospect(Reason::Conflict, send()),
            prospect(Reason::InvalidControl, control),
            Prospect::of(&letter(INBOUND, Reason::Malformed, b"junk"), INBOUND),
            Prospect::of(
                &letter("chat.events", Reason::Malformed, &send().encode()),
                INBOUND,
            ),
            Prospect::of(
                &letter(INBOUND, Reason::TooLarge, &vec![b'x'; 2_000_000]),
                INBOUND,
            ),
        ] {
            assert!(matches!(found, Prospect::Hopeless(_)), "{found:?}");
        }
    }
}
