use api::{AcceptedBody, EventBody};
use schemas::{
    ClientMsgId, Recipient, UserId,
    command::{Command, SendMessage},
    kind::{CommandKind, Retry},
};
use uuid::Uuid;

use crate::{Client, ClientError, FieldError};

/// The line of a batch that posts a command, without a newline. Ingest refuses that of a control: operators append these themselves.
#[must_use]
pub fn line(command: &Command) -> String {
    serde_json::to_string(&EventBody::from(command)).expect("bodies have string keys")
}

/// A message with a new id. Sent again, it is the same message.
pub fn message(from: UserId, to: UserId, text: impl Into<String>) -> SendMessage {
    message_to(from, Recipient::User(to), text)
}

/// The same, to a user or a group.
pub fn message_to(from: UserId, to: Recipient, text: impl Into<String>) -> SendMessage {
    SendMessage {
        by_user: false,
        srcid: from,
        to,
        client_msg_id: new_client_msg_id(),
        msg: text.into(),
    }
}

/// An id that no command has: a UUIDv7.
fn new_command_id() -> String {
    Uuid::now_v7().to_string()
}

/// An id that no message has: a UUIDv7.
#[must_use]
pub fn new_client_msg_id() -> ClientMsgId {
    ClientMsgId::try_from(new_command_id()).expect("a UUID has 36 printable characters")
}

impl Client {
    /// Posts a command and repeats it, always with one id, while the outcome is unknown. What is accepted may be refused on the log:
    /// [`Client::outcome`] says whether it is done.
    ///
    /// A read-ack of all so far, and the deletion of a contact, take in what is sequenced before them. They are not repeated after an unknown outcome,
    /// since below rule version 4 they would take in what came meanwhile. Below that version an edit or a profile that is repeated takes the place of one
    /// that was posted meanwhile.
    ///
    /// # Errors
    /// It was refused, or not accepted in time. A control is refused: operators append controls themselves.
    pub async fn post_command(
        &self,
        command: impl Into<Command>,
    ) -> Result<AcceptedBody, ClientError> {
        let command = command.into();
        let call = EventBody::from(&command).into_call().ok_or_else(|| {
            let field = "command".to_owned();
            let message = "is a control, which no call takes".to_owned();
            ClientError::InvalidField(FieldError { field, message })
        })?;
        let kind = command.kind();
        // A message has an id of its own.
        let key = (kind.retry() != Retry::ClientMsgId).then(new_command_id);
        let attempt = || self.call_once(&call, key.as_deref());
        self.retry.run(may_repeat(kind), attempt).await
    }
}

/// After which errors a command is repeated: below rule version 4, a command about all so far would also cover what came meanwhile.
fn may_repeat(kind: &dyn CommandKind) -> fn(&ClientError) -> bool {
    match kind.retry() {
        Retry::ClientMsgId | Retry::CommandId => ClientError::is_retryable,
        Retry::CommandIdOfLatest | Retry::CommandIdOfDeletion => ClientError::did_nothing,
    }
}

#[cfg(test)]
mod tests {
    use schemas::{
        Change, ChangeContact, ChangeGroup, ChangeMessage, DeviceClass, GroupAction, Mid, Profile,
        command::ReadAck,
    };

    use super::*;

    fn user(uid: i64) -> UserId {
        uid.try_into().unwrap()
    }

    #[test]
    fn lines_are_what_ingest_reads() {
        let message = SendMessage {
            client_msg_id: "a".to_owned().try_into().unwrap(),
            ..message(user(1), user(2), "hello")
        };
        assert_eq!(
            line(&Command::Send(message)),
            r#"{"message":{"srcid":"1","destid":"2","client_msg_id":"a","msg":"hello"}}"#
        );
        let to_group = SendMessage {
            client_msg_id: "a".to_owned().try_into().unwrap(),
            ..message_to(user(1), Recipient::Group(5.try_into().unwrap()), "hello")
        };
        assert_eq!(
            line(&Command::Send(to_group)),
            r#"{"message":{"srcid":"1","gid":"5","client_msg_id":"a","msg":"hello"}}"#
        );
        let ack = |mid| ReadAck {
            uid: user(1),
            to: Recipient::User(user(2)),
            device: DeviceClass::Mobile,
            mid,
        };
        assert_eq!(
            line(&Command::ReadAck(ack(Some(Mid::ZERO.next())))),
            r#"{"read_ack":{"uid":"1","peer":"2","device":"mobile","mid":1}}"#
        );
        let join = ChangeGroup {
            gid: 5.try_into().unwrap(),
            by: user(1),
            by_user: true,
            action: GroupAction::Join,
        };
        assert_eq!(
            line(&Command::ChangeGroup(join)),
            r#"{"group_change":{"gid":"5","by":"1","join":true}}"#
        );
        let latest = line(&Command::ReadAck(ack(None)));
        assert!(latest.contains(r#""mid":"latest""#), "{latest}");
        let change = |change| {
            line(&Command::ChangeMessage(ChangeMessage {
                by: user(1),
                to: Recipient::User(user(2)),
                mid: Mid::ZERO.next(),
                change,
            }))
        };
        assert_eq!(
            change(Change::Recall),
            r#"{"message_change":{"by":"1","peer":"2","mid":1,"kind":"recall"}}"#
        );
        assert_eq!(
            change(Change::Edit("new".to_owned())),
            r#"{"message_change":{"by":"1","peer":"2","mid":1,"kind":"edit","msg":"new"}}"#
        );
        let contact = ChangeContact {
            uid: user(1),
            peer: user(2),
            favourite: None,
            pinned: Some(false),
            muted: None,
            blocked: Some(true),
            deleted: false,
            by_user: true,
        };
        assert_eq!(
            line(&Command::ChangeContact(contact)),
            r#"{"contact_change":{"uid":"1","peer":"2","pinned":false,"blocked":true}}"#
        );
        let deletion = ChangeContact {
            deleted: true,
            ..contact
        };
        let deletion = line(&Command::ChangeContact(deletion));
        assert!(deletion.contains(r#""deleted":true"#), "{deletion}");
    }

    #[test]
    fn extra_is_written_as_it_is() {
        for (extra, written) in [
            (
                r#"{ "b": 1.50, "a": 123456789012345678901234567890 }"#,
                None,
            ),
            ("no json", Some(r#""no json""#)),
        ] {
            let profile = Profile {
                uid: user(1),
                nick: "Ann".to_owned(),
                avatar: None,
                extra: Some(extra.to_owned()),
            };
            let written = written.unwrap_or(extra);
            let expected = format!(r#"{{"profile":{{"uid":"1","nick":"Ann","extra":{written}}}}}"#);
            assert_eq!(line(&Command::SetProfile(profile)), expected);
        }
    }

    #[test]
    fn every_message_has_an_id_of_its_own() {
        let id = || message(user(1), user(2), "").client_msg_id;
        assert_ne!(id(), id());
    }
}
