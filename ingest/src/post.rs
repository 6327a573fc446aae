//! A post: the command that a producer wants on the log, checked by the same rules in every encoding.

use access::Caller;
use problem::{FieldError, Problem};
use schemas::{
    ClientMsgId, DirectConversation, UserId,
    command::{Command, Malformed, ReadAck, SendMessage},
    proto,
};
use uuid::Uuid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EventKind {
    Message,
    /// Of a mid.
    ReadAck,
    /// Of `latest`, which means another message when it is posted again.
    ReadAckOfLatest,
}

/// A message or a read-ack to append.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    pub(crate) command: Command,
    /// The client_msg_id of the message, where it was generated here.
    pub(crate) generated_id: Option<Uuid>,
}

impl EventKind {
    /// The member of an event that holds one of this kind.
    pub(crate) fn member(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::ReadAck | Self::ReadAckOfLatest => "read_ack",
        }
    }
}

impl Post {
    /// Checks a message, and generates its client_msg_id where there is none.
    pub(crate) fn message(
        mut send: proto::SendMessage,
        client_msg_id: Option<String>,
        max_msg_bytes: usize,
    ) -> Result<Self, Problem> {
        if send.msg.len() > max_msg_bytes {
            return Err(Problem::invalid_field(
                "msg",
                format_args!("has {} bytes", send.msg.len()),
                format_args!("1 to {max_msg_bytes} bytes of UTF-8"),
            ));
        }
        let generated_id = client_msg_id.is_none().then(Uuid::now_v7);
        send.client_msg_id =
            client_msg_id.unwrap_or_else(|| generated_id.unwrap_or_default().to_string());
        let send = SendMessage::try_from(send).map_err(invalid_field)?;
        Ok(Self {
            command: Command::Send(send),
            generated_id,
        })
    }

    /// Checks a read-ack that came as protobuf.
    pub(crate) fn read_ack(ack: proto::ReadAck) -> Result<Self, Problem> {
        let ack = ReadAck::try_from(ack).map_err(invalid_field)?;
        Ok(ack.into())
    }

    pub(crate) fn kind(&self) -> EventKind {
        self.parties().0
    }

    pub(crate) fn conversation(&self) -> DirectConversation {
        let (_, author, peer) = self.parties();
        DirectConversation::new(author, peer)
    }

    /// Checks that `caller` may post it (only its author may, or a service in the author's name), and sets in a message which of the two it
    /// was.
    pub(crate) fn authorize(&mut self, caller: &Caller) -> Result<(), Problem> {
        if let Command::Send(send) = &mut self.command {
            send.by_user = matches!(caller, Caller::User(_));
        }
        let (kind, author, _) = self.parties();
        let field = match kind {
            EventKind::Message => "srcid",
            EventKind::ReadAck | EventKind::ReadAckOfLatest => "uid",
        };
        caller.may_send_as(author, field)
    }

    /// The id with which a message can be retried; a read-ack needs none.
    pub(crate) fn client_msg_id(&self) -> Option<&ClientMsgId> {
        match &self.command {
            Command::Send(send) => Some(&send.client_msg_id),
            Command::ReadAck(_) | Command::Control(_) => None,
        }
    }

    /// The kind, the author and the other user of the conversation.
    fn parties(&self) -> (EventKind, UserId, UserId) {
        match &self.command {
            Command::Send(send) => (EventKind::Message, send.srcid, send.destid),
            Command::ReadAck(ack) => {
                let kind = match ack.mid {
                    Some(_) => EventKind::ReadAck,
                    None => EventKind::ReadAckOfLatest,
                };
                (kind, ack.uid, ack.peer)
            }
            Command::Control(_) => unreachable!("no encoding of a post has controls"),
        }
    }
}

impl From<ReadAck> for Post {
    fn from(ack: ReadAck) -> Self {
        Self {
            command: Command::ReadAck(ack),
            generated_id: None,
        }
    }
}

fn invalid_field(malformed: Malformed) -> Problem {
    Problem::invalid_fields(vec![FieldError {
        field: malformed.field.to_owned(),
        message: malformed.problem,
    }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_whether_its_sender_posted_it() {
        let send = proto::SendMessage {
            srcid: 1001,
            destid: 1000,
            client_msg_id: String::new(),
            msg: "hello".to_owned(),
            by_user: false,
        };
        let user = Caller::User(1001.try_into().unwrap());
        for claimed in [false, true] {
            for (caller, by_user) in [(&user, true), (&Caller::Anyone, false)] {
                let send = proto::SendMessage {
                    by_user: claimed,
                    ..send.clone()
                };
                let mut post = Post::message(send, None, 100).unwrap();
                post.authorize(caller).unwrap();
                let Command::Send(send) = post.command else {
                    panic!("a message is a send");
                };
                assert_eq!(send.by_user, by_user);
            }
        }
    }

    fn message(msg: &str, client_msg_id: Option<&str>) -> Result<Post, Problem> {
        let send = proto::SendMessage {
            by_user: false,
            srcid: 1001,
            destid: 1000,
            client_msg_id: String::new(),
            msg: msg.to_owned(),
        };
        Post::message(send, client_msg_id.map(str::to_owned), 4)
    }

    #[test]
    fn the_limit_counts_bytes_and_is_exact() {
        assert!(message("üü", None).is_ok());
        for (msg, detail) in [
            ("üüa", "msg has 5 bytes; must be 1 to 4 bytes of UTF-8"),
            ("", "msg is empty; must be at least one byte"),
            ("\0", "msg has a NUL character; must be UTF-8 without NUL"),
        ] {
            assert_eq!(message(msg, None).unwrap_err().detail, detail);
        }
    }

    #[test]
    fn a_missing_id_is_generated_and_a_given_one_is_kept() {
        let post = message("a", None).unwrap();
        let generated = post.generated_id.unwrap();
        assert_eq!(generated.get_version_num(), 7);
        let id = post.client_msg_id().unwrap();
        assert_eq!(id.as_str(), generated.to_string());

        let post = message("a", Some("mine")).unwrap();
        assert_eq!(post.generated_id, None);
        assert_eq!(post.client_msg_id().unwrap().as_str(), "mine");
    }

    #[test]
    fn an_empty_id_that_was_given_is_refused() {
        let refused = message("a", Some("")).unwrap_err();
        assert_eq!(refused.errors[0].field, "client_msg_id");
    }
}
