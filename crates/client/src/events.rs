use schemas::{
    ChangeContact, ChangeGroup, ChangeMessage, ClientMsgId, InboundPosition, Partition, Recipient,
    UserId,
    command::{Command, ReadAck, SendMessage},
    kind::{CommandKind, Retry},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{Client, ClientError, group_json::group_json, profiles::ProfileBody};

/// What ingest accepted: it is on the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Where it is in `chat.inbound`; [`ReadOptions::after`](crate::ReadOptions::after) takes it.
    pub position: InboundPosition,
    /// The id of the message; `None` for all other events.
    pub client_msg_id: Option<String>,
}

/// The line of a batch that posts a command, without a newline. Ingest refuses that of a control: operators append these themselves.
#[must_use]
pub fn line(command: &Command) -> String {
    let body = match command {
        Command::Send(send) => message_json(send),
        Command::ReadAck(ack) => read_ack_json(ack),
        Command::ChangeMessage(change) => message_change_json(change),
        Command::ChangeContact(change) => contact_change_json(change),
        Command::ChangeGroup(change) => group_json(change).1,
        Command::SetProfile(profile) => return ProfileBody::line(profile),
        Command::Control(_) => json!({}),
    };
    json!({ command.kind().member(): body }).to_string()
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

/// An id that no message has: a UUIDv7.
#[must_use]
pub fn new_client_msg_id() -> ClientMsgId {
    let id = Uuid::now_v7().to_string();
    ClientMsgId::try_from(id).expect("a UUID has 36 printable characters")
}

impl Client {
    /// Sends a message and repeats it, always with its id, while the outcome is unknown.
    ///
    /// # Errors
    /// It was refused, or not accepted in time.
    pub async fn send(&self, message: &SendMessage) -> Result<Accepted, ClientError> {
        let body = message_json(message);
        self.post_event("/v1/messages", &body, ClientError::is_retryable)
            .await
    }

    /// Says that a user has read up to a message, or all so far. All so far is what is sequenced before it: it is not repeated after an
    /// unknown outcome, since below rule version 4 it would take in what came meanwhile.
    ///
    /// # Errors
    /// It was refused, or not accepted in time.
    pub async fn acknowledge(&self, ack: &ReadAck) -> Result<Accepted, ClientError> {
        self.post_event("/v1/read-acks", &read_ack_json(ack), may_repeat(ack))
            .await
    }

    /// Recalls, deletes, edits or hides a message, or clears a history. Whether that is done, [`Client::outcome`] says. It is repeated while the
    /// outcome is unknown: below rule version 4 an edit that is repeated takes the place of one that was posted meanwhile.
    ///
    /// # Errors
    /// It was refused, or not accepted in time.
    pub async fn change_message(&self, change: &ChangeMessage) -> Result<Accepted, ClientError> {
        let body = message_change_json(change);
        self.post_event("/v1/message-changes", &body, ClientError::is_retryable)
            .await
    }

    /// Sets what a user says about a contact, or deletes it. Deleting it takes in all messages so far: it is not repeated after an unknown
    /// outcome, as a read-ack of all so far is not.
    ///
    /// # Errors
    /// It was refused, or not accepted in time.
    pub async fn change_contact(&self, change: &ChangeContact) -> Result<Accepted, ClientError> {
        let body = contact_change_json(change);
        self.post_event("/v1/contact-changes", &body, may_repeat(change))
            .await
    }

    /// Begins or changes a group. Whether that is done, [`Client::outcome`] says. It is repeated while the outcome is unknown.
    ///
    /// # Errors
    /// It was refused, or not accepted in time.
    pub async fn change_group(&self, change: &ChangeGroup) -> Result<Accepted, ClientError> {
        let (kind, body) = group_json(change);
        let path = match kind {
            "group" => "/v1/groups".to_owned(),
            _ => format!("/v1/groups/{}/changes", change.gid),
        };
        self.post_event(&path, &body, ClientError::is_retryable)
            .await
    }

    pub(crate) async fn put_event(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Accepted, ClientError> {
        let key = new_client_msg_id();
        let put = || self.put_once(path, body, Some(key.as_str()));
        let accepted: AcceptedBody = self.retry.run(ClientError::is_retryable, put).await?;
        let invalid = |error| ClientError::invalid_response(path, error);
        accepted.try_into().map_err(invalid)
    }

    /// All attempts have one id: that of the message in its body, or one that is made here.
    async fn post_event(
        &self,
        path: &str,
        body: &Value,
        may_repeat: fn(&ClientError) -> bool,
    ) -> Result<Accepted, ClientError> {
        let key = body["client_msg_id"].is_null().then(new_client_msg_id);
        let key = key.as_ref().map(ClientMsgId::as_str);
        let post = || self.post_once(path, body, key);
        let accepted: AcceptedBody = self.retry.run(may_repeat, post).await?;
        let invalid = |error| ClientError::invalid_response(path, error);
        accepted.try_into().map_err(invalid)
    }
}

/// After which errors a command is repeated: below rule version 4, one of all so far would also cover what came meanwhile.
fn may_repeat(kind: &dyn CommandKind) -> fn(&ClientError) -> bool {
    match kind.retry() {
        Retry::ClientMsgId | Retry::CommandId => ClientError::is_retryable,
        Retry::CommandIdOfLatest | Retry::CommandIdOfDeletion => ClientError::did_nothing,
    }
}

#[derive(Deserialize)]
pub(crate) struct AcceptedBody {
    pub(crate) partition: i64,
    pub(crate) offset: i64,
    #[serde(default)]
    pub(crate) client_msg_id: Option<String>,
}

impl TryFrom<AcceptedBody> for Accepted {
    type Error = schemas::InvalidValue;

    fn try_from(body: AcceptedBody) -> Result<Self, Self::Error> {
        Ok(Self {
            position: InboundPosition {
                partition: Partition::try_from(body.partition)?,
                offset: body.offset,
            },
            client_msg_id: body.client_msg_id,
        })
    }
}

fn message_json(message: &SendMessage) -> Value {
    let (field, id) = recipient("destid", message.to);
    json!({
        "srcid": message.srcid,
        field: id,
        "client_msg_id": message.client_msg_id,
        "msg": message.msg,
    })
}

/// The field that names it, and its id.
fn recipient(of_user: &'static str, to: Recipient) -> (&'static str, Value) {
    match to {
        Recipient::User(uid) => (of_user, json!(uid)),
        Recipient::Group(gid) => ("gid", json!(gid)),
    }
}

fn read_ack_json(ack: &ReadAck) -> Value {
    let mid = ack.mid.map_or_else(|| json!("latest"), |mid| json!(mid));
    let (field, id) = recipient("peer", ack.to);
    json!({ "uid": ack.uid, field: id, "device": ack.device, "mid": mid })
}

fn message_change_json(change: &ChangeMessage) -> Value {
    let (field, id) = recipient("peer", change.to);
    let mut body = json!({
        "by": change.by,
        field: id,
        "mid": change.mid,
        "kind": change.change.kind(),
    });
    if let Some(msg) = change.change.msg() {
        body["msg"] = msg.into();
    }
    body
}

fn contact_change_json(change: &ChangeContact) -> Value {
    let mut body = json!({ "uid": change.uid, "peer": change.peer });
    for (name, value) in [
        ("favourite", change.favourite),
        ("pinned", change.pinned),
        ("muted", change.muted),
        ("blocked", change.blocked),
        ("deleted", change.deleted.then_some(true)),
    ] {
        if let Some(value) = value {
            body[name] = value.into();
        }
    }
    body
}

#[cfg(test)]
mod tests {
    use schemas::{Change, DeviceClass, GroupAction, Mid};

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
            r#"{"message":{"client_msg_id":"a","destid":"2","msg":"hello","srcid":"1"}}"#
        );
        let to_group = SendMessage {
            client_msg_id: "a".to_owned().try_into().unwrap(),
            ..message_to(user(1), Recipient::Group(5.try_into().unwrap()), "hello")
        };
        assert_eq!(
            line(&Command::Send(to_group)),
            r#"{"message":{"client_msg_id":"a","gid":"5","msg":"hello","srcid":"1"}}"#
        );
        let ack = |mid| ReadAck {
            uid: user(1),
            to: Recipient::User(user(2)),
            device: DeviceClass::Mobile,
            mid,
        };
        assert_eq!(
            line(&Command::ReadAck(ack(Some(Mid::ZERO.next())))),
            r#"{"read_ack":{"device":"mobile","mid":1,"peer":"2","uid":"1"}}"#
        );
        let join = ChangeGroup {
            gid: 5.try_into().unwrap(),
            by: user(1),
            by_user: true,
            action: GroupAction::Join,
        };
        assert_eq!(
            line(&Command::ChangeGroup(join)),
            r#"{"group_change":{"by":"1","gid":"5","join":true}}"#
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
            r#"{"message_change":{"by":"1","kind":"recall","mid":1,"peer":"2"}}"#
        );
        assert_eq!(
            change(Change::Edit("new".to_owned())),
            r#"{"message_change":{"by":"1","kind":"edit","mid":1,"msg":"new","peer":"2"}}"#
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
            r#"{"contact_change":{"blocked":true,"peer":"2","pinned":false,"uid":"1"}}"#
        );
        let deletion = ChangeContact {
            deleted: true,
            ..contact
        };
        let deletion = line(&Command::ChangeContact(deletion));
        assert!(deletion.contains(r#""deleted":true"#), "{deletion}");
    }

    #[test]
    fn every_message_has_an_id_of_its_own() {
        let id = || message(user(1), user(2), "").client_msg_id;
        assert_ne!(id(), id());
    }
}
