//! Whether the original of a dead letter can be posted again.

use event_log::EventLogError;
use schemas::{
    ClientMsgId, ConversationId, Mid, TimestampMs, UserId,
    command::{Command, SendMessage},
    dead_letter::Reason,
    kind::Redrive,
};
use serde_json::Value;

use super::dead_letters::DeadLetter;

pub(super) const ABOVE_NEWEST: &str =
    "it is above the last message of its time, and would take in those since";
pub(super) const ID_TAKEN: &str = "its id is another command's: it needs a new one";

/// Identifies a send.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SendKey {
    pub(super) conversation: ConversationId,
    pub(super) srcid: UserId,
    pub(super) client_msg_id: ClientMsgId,
}

/// When a record of a conversation was appended, by the log's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RecordTime {
    pub(super) conversation: ConversationId,
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
    /// A read-ack, or a change of a message that nothing undoes. A read position never moves back, and a recalled or hidden message does not come
    /// back, so an old command is safe, unless its mid is above the newest message at its time: posted now, it would concern a later message.
    AboutMessage {
        time: RecordTime,
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
        let command = match Self::command(dead_letter, inbound) {
            Ok(command) => command,
            Err(why) => return Ok(Self::NotPostable(why)),
        };
        if let Some(ConversationId::Group(_)) = command.conversation() {
            let why = "what happened in the group since then is not looked at";
            return Ok(Self::NotPostable(why));
        }
        let line = serde_json::from_str(&client::line(&command)).unwrap_or_default();
        Ok(match (command.kind().redrive(), command) {
            (Redrive::Never(why), _) => Self::NotPostable(why),
            (Redrive::Send, Command::Send(send)) => Self::message(send, line),
            (Redrive::Send, _) => Self::NotPostable("it is no message"),
            (Redrive::IfMessageExisted(mid), command) => {
                Self::of_message(command.conversation(), mid, line, appended_at()?)
            }
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
        match headers.reason {
            Reason::Conflict => return Err(ID_TAKEN),
            Reason::Blocked => return Err("its receiver had blocked its sender"),
            Reason::HasLeft => return Err("whom it adds had left the group by himself"),
            Reason::WrongGid => return Err("it would be refused again: its gid does not change"),
            Reason::NotTheAuthor | Reason::TooLate | Reason::TooOld | Reason::Recalled => {
                return Err(
                    "it would be refused again: what it says of its message does not change",
                );
            }
            Reason::Malformed
            | Reason::WrongPartition
            | Reason::TooLarge
            | Reason::InvalidControl
            | Reason::TooManyConversations
            | Reason::UnknownMessage
            | Reason::NotAllowed
            | Reason::UnknownGroup
            | Reason::GroupExists
            | Reason::NotAMember
            | Reason::NoRight
            | Reason::Muted
            | Reason::GroupFull
            | Reason::Dissolved
            | Reason::TooManyMemberships => {}
        }
        let value = dead_letter.record.value.as_deref().unwrap_or_default();
        Command::parse(value).map_err(|_| "it is no command")
    }

    fn message(send: SendMessage, line: Value) -> Self {
        let key = SendKey {
            conversation: send.conversation(),
            srcid: send.srcid,
            client_msg_id: send.client_msg_id,
        };
        let msg = send.msg;
        Self::Message { key, msg, line }
    }

    fn of_message(
        conversation: Option<ConversationId>,
        mid: Mid,
        line: Value,
        appended_at: Option<TimestampMs>,
    ) -> Self {
        let (Some(conversation), Some(appended_at)) = (conversation, appended_at) else {
            return Self::NotPostable(
                "chat.inbound has its original no longer, so nothing tells which messages it can mean",
            );
        };
        let time = RecordTime {
            conversation,
            appended_at,
        };
        Self::AboutMessage { time, mid, line }
    }
}

#[cfg(test)]
mod tests {
    use schemas::{
        Change, ChangeContact, ChangeMessage, DeviceClass, DirectConversation, Recipient,
        command::ReadAck,
    };
    use serde_json::json;

    use super::{super::dead_letters::tests::dead_letter, *};

    const INBOUND: &str = "chat.inbound";

    fn user(uid: i64) -> UserId {
        uid.try_into().unwrap()
    }

    fn send() -> Command {
        Command::Send(SendMessage {
            by_user: false,
            srcid: user(i64::MAX),
            to: Recipient::User(user(1)),
            client_msg_id: "c-1".to_owned().try_into().unwrap(),
            msg: "\"hi\"\n".to_owned(),
        })
    }

    fn ack(mid: Option<Mid>) -> Command {
        Command::ReadAck(ReadAck {
            uid: user(1),
            to: Recipient::User(user(2)),
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
        let time = RecordTime {
            conversation: DirectConversation::new(user(1), user(2)).into(),
            appended_at: APPENDED_AT,
        };
        assert_eq!(found, Candidate::AboutMessage { time, mid, line });
        let latest = candidate(Reason::WrongPartition, ack(None));
        assert!(matches!(latest, Candidate::NotPostable(_)), "{latest:?}");
    }

    fn change(change: Change) -> Command {
        Command::ChangeMessage(ChangeMessage {
            by: user(1),
            to: Recipient::User(user(2)),
            mid: Mid::ZERO.next(),
            change,
        })
    }

    #[test]
    fn a_change_that_nothing_undoes_is_posted_and_no_other() {
        for (posted, kind) in [
            (Change::Recall, "recall"),
            (Change::Delete, "delete"),
            (Change::Hide, "hide"),
            (Change::Clear, "clear"),
        ] {
            let found = candidate(Reason::UnknownMessage, change(posted));
            let Candidate::AboutMessage { time, mid, line } = found else {
                panic!("{kind}: {found:?}");
            };
            assert_eq!((time.appended_at, mid), (APPENDED_AT, Mid::ZERO.next()));
            let body = json!({ "by": "1", "peer": "2", "mid": 1, "kind": kind });
            assert_eq!(line, json!({ "message_change": body }));
        }
        let unblocks = Command::ChangeContact(ChangeContact {
            uid: user(1),
            peer: user(2),
            favourite: None,
            pinned: None,
            muted: None,
            blocked: Some(false),
            deleted: false,
            by_user: true,
        });
        for found in [
            candidate(Reason::TooLarge, change(Change::Edit("new".to_owned()))),
            candidate(Reason::TooManyConversations, unblocks),
        ] {
            assert!(matches!(found, Candidate::NotPostable(_)), "{found:?}");
        }
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
            candidate(Reason::Blocked, send()),
            candidate(Reason::NotTheAuthor, change(Change::Recall)),
            candidate(Reason::TooLate, change(Change::Recall)),
            candidate(Reason::TooOld, change(Change::Delete)),
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
