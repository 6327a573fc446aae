//! A message: the command that sends it, and the event that gives it its number.

use crate::{
    ClientMsgId, Column, ConversationId, Mid, Ordinal, Recipient, UserId,
    kind::{
        CommandKind, CommandScope, EventKind, Redrive, Retry, both_users_or_author, first_unequal,
        recipient_field,
    },
    malformed::{Malformed, mid, ordinal_between_users, text, uid},
    proto,
};

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendMessage {
    /// The sender.
    pub srcid: UserId,
    /// The recipient.
    pub to: Recipient,
    /// The sender's own id of this send.
    pub client_msg_id: ClientMsgId,
    /// At least one byte, without NUL.
    pub msg: String,
    /// The sender posted the command, so the limits of users apply.
    pub by_user: bool,
}

impl SendMessage {
    /// The conversation it belongs to.
    #[must_use]
    pub fn conversation(&self) -> ConversationId {
        self.to.conversation_with(self.srcid)
    }

    /// Checks the text.
    ///
    /// # Errors
    /// [`Malformed`] if the text is empty or has NUL.
    pub fn checked(self) -> Result<Self, Malformed> {
        Ok(Self {
            msg: text(self.msg)?,
            ..self
        })
    }

    /// The first field in which the event differs from the command.
    pub(crate) fn mismatch(&self, message: &Message) -> Option<&'static str> {
        first_unequal([
            ("srcid", self.srcid == message.srcid),
            (recipient_field("destid", self.to), self.to == message.to),
            ("client_msg_id", self.client_msg_id == message.client_msg_id),
            ("msg", self.msg == message.msg),
        ])
    }
}

/// A message with the number that the sequencer gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The sender.
    pub srcid: UserId,
    /// The recipient.
    pub to: Recipient,
    /// The sender's own id of this send.
    pub client_msg_id: ClientMsgId,
    /// The text.
    pub msg: String,
    /// Its number in the conversation: 1, 2, 3 …
    pub mid: Mid,
    /// Its number among the messages that `srcid` sent in the conversation: 1, 2, 3 …; 0 in a group, where messages are not counted by sender.
    pub ordinal: Ordinal,
}

impl Message {
    /// The conversation it belongs to.
    #[must_use]
    pub fn conversation(&self) -> ConversationId {
        self.to.conversation_with(self.srcid)
    }
}

impl Message {
    /// The columns of its table.
    pub const COLUMNS: &[Column<Self>] = crate::columns! {
        srcid: User(|m| Some(m.srcid)), "the sender";
        destid: User(|m| m.to.uid_or_gid().0), "the receiver; null in a group";
        gid: Group(|m| m.to.uid_or_gid().1), "the group; null between two users";
        mid: Number(|m| Some(m.mid.get())), "the number in the conversation: 1, 2, 3 …";
        n: Number(|m| Some(m.ordinal.get()).filter(|n| *n > 0)),
            "the number among the sender's messages of the conversation: 1, 2, 3 …; null in a group";
        client_msg_id: ChosenId(|m| Some(m.client_msg_id.as_str())), "the sender's own id of the send";
        msg: Text(|m| Some(&m.msg)), "the text";
    };
}

impl TryFrom<proto::SendMessage> for SendMessage {
    type Error = Malformed;

    fn try_from(send: proto::SendMessage) -> Result<Self, Malformed> {
        Self {
            srcid: uid("srcid", send.srcid)?,
            to: Recipient::from_proto("destid", send.destid, send.gid)?,
            client_msg_id: send
                .client_msg_id
                .try_into()
                .map_err(|e| Malformed::new("client_msg_id", e))?,
            msg: send.msg,
            by_user: send.by_user,
        }
        .checked()
    }
}

impl From<SendMessage> for proto::SendMessage {
    fn from(send: SendMessage) -> Self {
        let (destid, gid) = send.to.into_proto();
        Self {
            srcid: send.srcid.get(),
            destid,
            client_msg_id: send.client_msg_id.into_string(),
            msg: send.msg,
            by_user: send.by_user,
            gid,
        }
    }
}

impl TryFrom<proto::MessageSequenced> for Message {
    type Error = Malformed;

    fn try_from(message: proto::MessageSequenced) -> Result<Self, Malformed> {
        Ok(Self {
            srcid: uid("srcid", message.srcid)?,
            to: Recipient::from_proto("destid", message.destid, message.gid)?,
            client_msg_id: message
                .client_msg_id
                .try_into()
                .map_err(|e| Malformed::new("client_msg_id", e))?,
            msg: text(message.msg)?,
            mid: mid(message.mid)?,
            ordinal: ordinal_between_users(Some(message.n), message.gid)?.unwrap_or_default(),
        })
    }
}

impl From<Message> for proto::MessageSequenced {
    fn from(message: Message) -> Self {
        let (destid, gid) = message.to.into_proto();
        Self {
            srcid: message.srcid.get(),
            destid,
            client_msg_id: message.client_msg_id.into_string(),
            msg: message.msg,
            mid: message.mid.get(),
            n: message.ordinal.get(),
            gid,
        }
    }
}

impl CommandKind for SendMessage {
    fn label(&self) -> &'static str {
        "message"
    }

    fn scope(&self) -> CommandScope {
        CommandScope::of_conversation(self.srcid, self.to)
    }

    fn author_field(&self) -> &'static str {
        "srcid"
    }

    fn rule_version(&self) -> u32 {
        1
    }

    fn set_by_user(&mut self, by_user: bool) {
        self.by_user = by_user;
    }

    fn redrive(&self) -> Redrive {
        Redrive::Send
    }

    fn concerned(&self) -> Vec<UserId> {
        both_users_or_author(self.srcid, self.to)
    }

    fn text_mut(&mut self) -> Option<&mut String> {
        Some(&mut self.msg)
    }

    fn retry(&self) -> Retry {
        Retry::ClientMsgId
    }
}

impl EventKind for Message {
    fn label(&self) -> &'static str {
        "message"
    }

    fn scope(&self) -> CommandScope {
        CommandScope::of_conversation(self.srcid, self.to)
    }

    fn is_for_author(&self) -> bool {
        false
    }

    fn extra_bytes(&self) -> usize {
        self.msg.len() + self.client_msg_id.as_str().len()
    }
}
