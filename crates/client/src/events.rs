use schemas::{
    ClientMsgId, InboundPosition, Partition, UserId,
    command::{ReadAck, SendMessage},
};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{Client, ClientError};

/// What ingest accepted: it is on the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Where it is in `chat.inbound`; [`ReadOptions::after`](crate::ReadOptions::after) takes it.
    pub position: InboundPosition,
    /// The id of the message; `None` for a read-ack.
    pub client_msg_id: Option<String>,
}

/// One line of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A text from one user to another.
    Message(SendMessage),
    /// A user has read up to a message.
    ReadAck(ReadAck),
}

impl Event {
    /// As ingest reads it, without a newline.
    #[must_use]
    pub fn to_line(&self) -> String {
        let event = match self {
            Self::Message(send) => json!({ "message": message_json(send) }),
            Self::ReadAck(ack) => json!({ "read_ack": read_ack_json(ack) }),
        };
        event.to_string()
    }
}

/// A message with a new id. Sent again, it is the same message.
pub fn message(from: UserId, to: UserId, text: impl Into<String>) -> SendMessage {
    SendMessage {
        by_user: false,
        srcid: from,
        destid: to,
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
    /// unknown outcome, since it would take in what came meanwhile.
    ///
    /// # Errors
    /// It was refused, or not accepted in time.
    pub async fn acknowledge(&self, ack: &ReadAck) -> Result<Accepted, ClientError> {
        let may_repeat = match ack.mid {
            Some(_) => ClientError::is_retryable,
            None => ClientError::did_nothing,
        };
        self.post_event("/v1/read-acks", &read_ack_json(ack), may_repeat)
            .await
    }

    async fn post_event(
        &self,
        path: &str,
        body: &Value,
        may_repeat: fn(&ClientError) -> bool,
    ) -> Result<Accepted, ClientError> {
        let post = || self.post_once(path, body);
        let accepted: AcceptedBody = self.retry.run(may_repeat, post).await?;
        let invalid = |error| ClientError::invalid_response(path, error);
        accepted.try_into().map_err(invalid)
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
    json!({
        "srcid": message.srcid,
        "destid": message.destid,
        "client_msg_id": message.client_msg_id,
        "msg": message.msg,
    })
}

fn read_ack_json(ack: &ReadAck) -> Value {
    let mid = ack.mid.map_or_else(|| json!("latest"), |mid| json!(mid));
    json!({ "uid": ack.uid, "peer": ack.peer, "device": ack.device, "mid": mid })
}

#[cfg(test)]
mod tests {
    use schemas::{DeviceClass, Mid};

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
            Event::Message(message).to_line(),
            r#"{"message":{"client_msg_id":"a","destid":"2","msg":"hello","srcid":"1"}}"#
        );
        let ack = |mid| ReadAck {
            uid: user(1),
            peer: user(2),
            device: DeviceClass::Mobile,
            mid,
        };
        assert_eq!(
            Event::ReadAck(ack(Some(Mid::ZERO.next()))).to_line(),
            r#"{"read_ack":{"device":"mobile","mid":1,"peer":"2","uid":"1"}}"#
        );
        let latest = Event::ReadAck(ack(None)).to_line();
        assert!(latest.contains(r#""mid":"latest""#), "{latest}");
    }

    #[test]
    fn every_message_has_an_id_of_its_own() {
        let id = || message(user(1), user(2), "").client_msg_id;
        assert_ne!(id(), id());
    }
}
