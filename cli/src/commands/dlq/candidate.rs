//! Whether the original of a dead letter can be posted again.

use event_log::EventLogError;
use schemas::{
    ClientMsgId, DirectConversation, Mid, TimestampMs, UserId,
    command::{Command, ReadAck, SendMessage},
    dead_letter::Reason,
};
use serde_json::{Value, json};

use super::dead_letters::DeadLetter;

pub(super) const ABOVE_NEWEST: &str =
    "it is above the last message of its time, and would take in those since";
pub(super) const ID_TAKEN: &str = "its client_msg_id is another message's: it needs a new one";

/// Identifies a send.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SendKey {
    pub(super) conversation: DirectConversation,
    pub(super) srcid: UserId,
    pub(super) client_msg_id: ClientMsgId,
}

/// The time of a read-ack in a conversation, by the log's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct AckTime {
    pub(super) conversation: DirectConversation,
    pub(super) appended_at: TimestampMs,
}

/// A dead letter whose original may be posted again.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Candidate {
    /// A message; it may be sequenced already.
    Message {
        key: SendKey,
        msg: String,
        line: Value,
    },
    /// A read-ack. A position never falls, so an old ack is safe, unless its mid is above the newest message at its time: then it meant that
    /// message, and posted now it would include later ones.
    ReadAck {
        ack_time: AckTime,
        mid: Mid,
        line: Value,
    },
    /// The original must not be posted, for this reason.
    NotPostable(&'static str),
}

impl Candidate {
    /// `inbound` is the full name of `chat.inbound`; `appended_at` looks up when the original was appended there.
    pub(super) fn of(
        dead_letter: &DeadLetter,
        inbound: &str,
        appended_at: impl FnOnce() -> Result<Option<TimestampMs>, EventLogError>,
    ) -> Result<Self, EventLogError> {
        Ok(match Self::command(dead_letter, inbound) {
            Ok(Command::Send(send)) => Self::message(send),
            Ok(Command::ReadAck(ack)) => match ack.mid {
                Some(mid) => Self::read_ack(&ack, mid, appended_at()?),
                None => Self::NotPostable(
                    "it means all messages of its time, and would take in those since",
                ),
            },
            Ok(Command::Control(_)) => Self::NotPostable("rules are changed by operators only"),
            Err(why) => Self::NotPostable(why),
        })
    }

    fn command(dead_letter: &DeadLetter, inbound: &str) -> Result<Command, &'static str> {
        let headers = &dead_letter.headers;
        if headers.topic != inbound {
            return Err("only what producers sent can be sent again");
        }
        if headers.original_value_bytes.is_some() {
            return Err("only its beginning was kept");
        }
        if headers.reason == Reason::Conflict {
            return Err(ID_TAKEN);
        }
        let value = dead_letter.record.value.as_deref().unwrap_or_default();
        Command::parse(value).map_err(|_| "it is no command")
    }

    fn message(send: SendMessage) -> Self {
        let conversation = send.conversation();
        let SendMessage {
            by_user: _,
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

    fn read_ack(ack: &ReadAck, mid: Mid, appended_at: Option<TimestampMs>) -> Self {
        let Some(appended_at) = appended_at else {
            return Self::NotPostable(
                "chat.inbound has its original no longer, so nothing tells which messages it can mean",
            );
        };
        let line = json!({
            "read_ack": { "uid": ack.uid, "peer": ack.peer, "device": ack.device, "mid": mid.get() }
        });
        let ack_time = AckTime {
            conversation: ack.conversation(),
            appended_at,
        };
        Self::ReadAck {
            ack_time,
            mid,
            line,
        }
    }
}

#[cfg(test)]
mod tests {
    use schemas::DeviceClass;

    use super::{super::dead_letters::tests::dead_letter, *};

    const INBOUND: &str = "chat.inbound";

    fn user(uid: i64) -> UserId {
        uid.try_into().unwrap()
    }

    fn send() -> Command {
        Command::Send(SendMessage {
            by_user: false,
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

    const APPENDED_AT: TimestampMs = TimestampMs(7);

    fn candidate(reason: Reason, command: Command) -> Candidate {
        of(&dead_letter(INBOUND, reason, &command.encode()))
    }

    fn of(dead_letter: &DeadLetter) -> Candidate {
        Candidate::of(dead_letter, INBOUND, || Ok(Some(APPENDED_AT))).unwrap()
    }

    #[test]
    fn a_message_is_posted_unchanged() {
        let Candidate::Message { key, line, .. } = candidate(Reason::WrongPartition, send()) else {
            panic!("it is a message");
        };
        assert_eq!(key.srcid, user(i64::MAX));
        let message = json!({
            "srcid": "9223372036854775807", "destid": "1", "client_msg_id": "c-1", "msg": "\"hi\"\n"
        });
        assert_eq!(line, json!({ "message": message }));
    }

    #[test]
    fn a_read_ack_without_mid_is_not_posted() {
        let mid = Mid::ZERO.next();
        let line = json!({ "read_ack": { "uid": "1", "peer": "2", "device": "mobile", "mid": 1 } });
        let found = candidate(Reason::WrongPartition, ack(Some(mid)));
        let ack_time = AckTime {
            conversation: DirectConversation::new(user(1), user(2)),
            appended_at: APPENDED_AT,
        };
        assert_eq!(
            found,
            Candidate::ReadAck {
                ack_time,
                mid,
                line
            }
        );
        let latest = candidate(Reason::WrongPartition, ack(None));
        assert!(matches!(latest, Candidate::NotPostable(_)), "{latest:?}");
    }

    #[test]
    fn a_read_ack_of_unknown_time_is_not_posted() {
        let ack = ack(Some(Mid::ZERO.next())).encode();
        let dead_letter = dead_letter(INBOUND, Reason::WrongPartition, &ack);
        let found = Candidate::of(&dead_letter, INBOUND, || Ok(None)).unwrap();
        assert!(matches!(found, Candidate::NotPostable(_)), "{found:?}");
    }

    #[test]
    fn originals_that_cannot_succeed_are_not_posted() {
        let control = Command::Control(schemas::command::Control::default());
        for found in [
            candidate(Reason::Conflict, send()),
            candidate(Reason::InvalidControl, control),
            of(&dead_letter(INBOUND, Reason::Malformed, b"junk")),
            of(&dead_letter(
                "chat.events",
                Reason::Malformed,
                &send().encode(),
            )),
            of(&dead_letter(
                INBOUND,
                Reason::TooLarge,
                &vec![b'x'; 2_000_000],
            )),
        ] {
            assert!(matches!(found, Candidate::NotPostable(_)), "{found:?}");
        }
    }
}
