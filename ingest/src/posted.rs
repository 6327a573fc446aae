//! What a producer posted, checked: the same rules whatever the encoding was.

use access::Caller;
use problem::{FieldError, Problem};
use schemas::{
    ClientMsgId, DirectConversation,
    command::{Command, Malformed, ReadAck, SendMessage},
    proto,
};
use uuid::Uuid;

/// What sort of event it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EventKind {
    Message,
    ReadAck,
}

/// Something well formed to append.
#[derive(Clone, Debug)]
pub(crate) enum Posted {
    Message {
        send: SendMessage,
        /// The client_msg_id, where the producer left it out.
        made_up: Option<Uuid>,
    },
    ReadAck(ReadAck),
}

/// Where in the body the event stands, for the names of fields in problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It is the whole body.
    Body,
    /// It is a member of a batch's line or item, named for its kind.
    Item,
}

impl Posted {
    /// Checks a message; an absent client_msg_id is made up.
    pub(crate) fn message(
        mut send: proto::SendMessage,
        client_msg_id: Option<String>,
        max_msg_bytes: usize,
        place: Place,
    ) -> Result<Self, Problem> {
        if send.msg.len() > max_msg_bytes {
            return Err(too_long(send.msg.len(), max_msg_bytes, place));
        }
        let made_up = client_msg_id.is_none().then(Uuid::now_v7);
        send.client_msg_id = match (client_msg_id, made_up) {
            (Some(given), _) => given,
            (None, made_up) => made_up.unwrap_or_default().to_string(),
        };
        let send = SendMessage::try_from(send)
            .map_err(|malformed| refusal(malformed, EventKind::Message, place))?;
        Ok(Self::Message { send, made_up })
    }

    /// Checks a read-ack that came as protobuf.
    pub(crate) fn read_ack(ack: proto::ReadAck, place: Place) -> Result<Self, Problem> {
        ReadAck::try_from(ack)
            .map(Self::ReadAck)
            .map_err(|malformed| refusal(malformed, EventKind::ReadAck, place))
    }

    pub(crate) fn kind(&self) -> EventKind {
        match self {
            Self::Message { .. } => EventKind::Message,
            Self::ReadAck(_) => EventKind::ReadAck,
        }
    }

    pub(crate) fn conversation(&self) -> DirectConversation {
        match self {
            Self::Message { send, .. } => send.conversation(),
            Self::ReadAck(ack) => ack.conversation(),
        }
    }

    /// Whether `caller` may send it: it is what its author alone may say.
    pub(crate) fn check_author(&self, caller: &Caller, place: Place) -> Result<(), Problem> {
        let (author, field) = match self {
            Self::Message { send, .. } => (send.srcid, "srcid"),
            Self::ReadAck(ack) => (ack.uid, "uid"),
        };
        caller.may_send_as(author, &place.path(self.kind(), field))
    }

    /// The id to repeat the call with; read-acks have none and need none.
    pub(crate) fn client_msg_id(&self) -> Option<&ClientMsgId> {
        match self {
            Self::Message { send, .. } => Some(&send.client_msg_id),
            Self::ReadAck(_) => None,
        }
    }

    /// The client_msg_id that the producer left out.
    pub(crate) fn made_up(&self) -> Option<Uuid> {
        match self {
            Self::Message { made_up, .. } => *made_up,
            Self::ReadAck(_) => None,
        }
    }
}

impl From<Posted> for Command {
    fn from(posted: Posted) -> Self {
        match posted {
            Posted::Message { send, .. } => Self::Send(send),
            Posted::ReadAck(ack) => Self::ReadAck(ack),
        }
    }
}

impl Place {
    /// The path of a field as the producer wrote it.
    fn path(self, kind: EventKind, field: &str) -> String {
        match (self, kind) {
            (Self::Body, _) => field.to_owned(),
            (Self::Item, EventKind::Message) => format!("message.{field}"),
            (Self::Item, EventKind::ReadAck) => format!("read_ack.{field}"),
        }
    }
}

fn too_long(bytes: usize, max_msg_bytes: usize, place: Place) -> Problem {
    Problem::invalid_field(
        place.path(EventKind::Message, "msg"),
        format_args!("has {bytes} bytes"),
        format_args!("1 to {max_msg_bytes} bytes of UTF-8"),
    )
}

fn refusal(malformed: Malformed, kind: EventKind, place: Place) -> Problem {
    Problem::invalid_fields(vec![FieldError {
        field: place.path(kind, malformed.field),
        message: malformed.problem,
    }])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(msg: &str) -> proto::SendMessage {
        proto::SendMessage {
            srcid: 1001,
            destid: 1000,
            client_msg_id: String::new(),
            msg: msg.to_owned(),
        }
    }

    fn field_of(refused: Result<Posted, Problem>) -> String {
        refused.unwrap_err().errors.remove(0).field
    }

    #[test]
    fn the_limit_counts_bytes_and_is_exact() {
        assert!(Posted::message(send("üü"), None, 4, Place::Body).is_ok());
        let refused = Posted::message(send("üüa"), None, 4, Place::Body).unwrap_err();
        assert_eq!(
            refused.detail,
            "msg has 5 bytes; must be 1 to 4 bytes of UTF-8"
        );
        assert_eq!(
            field_of(Posted::message(send(""), None, 4, Place::Item)),
            "message.msg"
        );
        let refused = Posted::message(send("\0"), None, 4, Place::Body).unwrap_err();
        assert_eq!(
            refused.detail,
            "msg has a NUL character; must be UTF-8 without NUL"
        );
    }

    #[test]
    fn a_missing_id_is_made_up_and_a_given_one_is_kept() {
        let posted = Posted::message(send("a"), None, 4, Place::Body).unwrap();
        let made_up = posted.made_up().unwrap();
        assert_eq!(made_up.get_version_num(), 7);
        assert_eq!(
            posted.client_msg_id().unwrap().as_str(),
            made_up.to_string()
        );

        let given = Some("mine".to_owned());
        let posted = Posted::message(send("a"), given, 4, Place::Body).unwrap();
        assert_eq!(posted.made_up(), None);
        assert_eq!(posted.client_msg_id().unwrap().as_str(), "mine");
    }

    #[test]
    fn an_empty_id_that_was_given_is_refused() {
        let refused = Posted::message(send("a"), Some(String::new()), 4, Place::Body);
        assert_eq!(field_of(refused), "client_msg_id");
    }
}
