//! What a redrive can do for a dead letter.

use event_log::EventLogError;
use schemas::{
    ClientMsgId, DirectConversation, Mid, TimestampMs, UserId,
    command::{Command, ReadAck, SendMessage},
    dead_letter::Reason,
};
use serde_json::{Value, json};

use super::letters::DeadLetter;

pub(super) const ABOVE_THE_LAST: &str =
    "it is above the last message of its time, and would take in those since";
pub(super) const ID_TAKEN: &str = "its client_msg_id is another message's: it needs a new one";

/// What tells one send from another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SendKey {
    pub(super) conversation: DirectConversation,
    pub(super) srcid: UserId,
    pub(super) client_msg_id: ClientMsgId,
}

/// A conversation as it was when something came, by the log's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Moment {
    pub(super) conversation: DirectConversation,
    pub(super) came: TimestampMs,
}

/// What becomes of a letter whose original is posted once more.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Prospect {
    /// A message, which may be sequenced already.
    Message {
        key: SendKey,
        msg: String,
        line: Value,
    },
    /// A read position, which moves nothing back. Above the last message of its moment it meant that one; posted later, it would take in
    /// messages since.
    ReadAck {
        moment: Moment,
        mid: Mid,
        line: Value,
    },
    /// The text says why it would be of no use, or do harm.
    Hopeless(&'static str),
}

impl Prospect {
    /// Of an original on the topic of this full name, `inbound`; `came` tells when that came, as far as anything still does.
    pub(super) fn of(
        letter: &DeadLetter,
        inbound: &str,
        came: impl FnOnce() -> Result<Option<TimestampMs>, EventLogError>,
    ) -> Result<Self, EventLogError> {
        Ok(match Self::command(letter, inbound) {
            Ok(Command::Send(send)) => Self::message(send),
            Ok(Command::ReadAck(ack)) => match ack.mid {
                Some(mid) => Self::read_ack(&ack, mid, came()?),
                None => Self::Hopeless(
                    "it means all messages of its time, and would take in those since",
                ),
            },
            Ok(Command::Control(_)) => Self::Hopeless("rules are changed by operators only"),
            Err(why) => Self::Hopeless(why),
        })
    }

    fn command(letter: &DeadLetter, inbound: &str) -> Result<Command, &'static str> {
        let told = &letter.told;
        if told.topic != inbound {
            return Err("only what producers sent can be sent again");
        }
        if told.original_value_bytes.is_some() {
            return Err("only its beginning was kept");
        }
        if told.reason == Reason::Conflict {
            return Err(ID_TAKEN);
        }
        let value = letter.record.value.as_deref().unwrap_or_default();
        Command::parse(value).map_err(|_| "it is no command")
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
            "message": { "srcid": srcid, "destid": destid, "client_msg_id": client_msg_id, "msg": &msg }
        });
        let key = SendKey {
            conversation,
            srcid,
            client_msg_id,
        };
        Self::Message { key, msg, line }
    }

    fn read_ack(ack: &ReadAck, mid: Mid, came: Option<TimestampMs>) -> Self {
        let Some(came) = came else {
            return Self::Hopeless(
                "chat.inbound has its original no longer, so nothing tells which messages it can mean",
            );
        };
        let line = json!({
            "read_ack": { "uid": ack.uid, "peer": ack.peer, "device": ack.device, "mid": mid.get() }
        });
        let moment = Moment {
            conversation: ack.conversation(),
            came,
        };
        Self::ReadAck { moment, mid, line }
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

    const CAME: TimestampMs = TimestampMs(7);

    fn prospect(reason: Reason, command: Command) -> Prospect {
        of(&letter(INBOUND, reason, &command.encode()))
    }

    fn of(letter: &DeadLetter) -> Prospect {
        Prospect::of(letter, INBOUND, || Ok(Some(CAME))).unwrap()
    }

    #[test]
    fn a_message_goes_through_the_door_as_it_was() {
        let Prospect::Message { key, line, .. } = prospect(Reason::WrongPartition, send()) else {
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
        let mid = Mid::ZERO.next();
        let line = json!({ "read_ack": { "uid": "1", "peer": "2", "device": "mobile", "mid": 1 } });
        let found = prospect(Reason::WrongPartition, ack(Some(mid)));
        let moment = Moment {
            conversation: DirectConversation::new(user(1), user(2)),
            came: CAME,
        };
        assert_eq!(found, Prospect::ReadAck { moment, mid, line });
        let latest = prospect(Reason::WrongPartition, ack(None));
        assert!(matches!(latest, Prospect::Hopeless(_)), "{latest:?}");
    }

    #[test]
    fn a_read_position_of_an_unknown_time_is_left() {
        let ack = ack(Some(Mid::ZERO.next())).encode();
        let letter = letter(INBOUND, Reason::WrongPartition, &ack);
        let found = Prospect::of(&letter, INBOUND, || Ok(None)).unwrap();
        assert!(matches!(found, Prospect::Hopeless(_)), "{found:?}");
    }

    #[test]
    fn what_cannot_be_mended_is_left() {
        let control = Command::Control(schemas::command::Control::default());
        for found in [
            prospect(Reason::Conflict, send()),
            prospect(Reason::InvalidControl, control),
            of(&letter(INBOUND, Reason::Malformed, b"junk")),
            of(&letter("chat.events", Reason::Malformed, &send().encode())),
            of(&letter(INBOUND, Reason::TooLarge, &vec![b'x'; 2_000_000])),
        ] {
            assert!(matches!(found, Prospect::Hopeless(_)), "{found:?}");
        }
    }
}
