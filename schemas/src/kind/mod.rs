//! The kinds of commands and of the events that answer them. Each has a file with all that follows from its fields.
//!
//! The enums over them, [`Command`](crate::command::Command) and [`Body`](crate::event::Body), call a kind through the traits `CommandKind` and `EventKind` below.

pub(crate) mod contact_change;
pub(crate) mod control;
pub(crate) mod group_change;
pub(crate) mod message_change;
pub(crate) mod profile;
pub(crate) mod read_ack;
pub(crate) mod send;

use std::fmt::{self, Display as _};

use self::read_ack::ReadPosition;
use crate::{ConversationId, Mid, Partition, Recipient, UserId, malformed::Malformed};

/// The labels of the commands that producers post.
pub const LABELS: [&str; 6] = [
    "message",
    "read_ack",
    "message_change",
    "contact_change",
    "profile",
    "group_change",
];

/// What depends on the kind of a command.
pub trait CommandKind {
    /// The name of the kind: the label of metrics, and the field of a line of NDJSON that holds the command, unless [`Self::line_field`] says otherwise.
    fn label(&self) -> &'static str;

    /// The user who gives the command, and the conversation.
    fn scope(&self) -> CommandScope;

    /// The field that names the author.
    fn author_field(&self) -> &'static str;

    /// The first rule version that has the kind. In a group it is at least 3: `Command::rule_version` sees to that.
    fn rule_version(&self) -> u32;

    /// Sets whether the author posted it, in which case the limits of users apply.
    fn set_by_user(&mut self, by_user: bool);

    /// Whether its dead letter may be posted again. In a group never.
    fn redrive(&self) -> Redrive;

    /// Checks what is required of a command that is posted, but not of a record on the log: a reaction has to be an emoji, which only ingest checks.
    ///
    /// # Errors
    /// The field at fault.
    fn check_posted(&self) -> Result<(), Malformed> {
        Ok(())
    }

    /// The field of a line of NDJSON that holds the command.
    fn line_field(&self) -> &'static str {
        self.label()
    }

    /// The users who may look up the outcome: the author, unless the kind says otherwise.
    fn concerned(&self) -> Vec<UserId> {
        self.scope().author.into_iter().collect()
    }

    /// The text that the word filter checks.
    fn text_mut(&mut self) -> Option<&mut String> {
        None
    }

    /// How a repeat of the command is recognised.
    fn retry(&self) -> Retry {
        Retry::CommandId
    }
}

/// What depends on the kind of an event.
pub trait EventKind {
    /// The name of the kind in metrics, exports and reports; one of [`Body::LABELS`](crate::event::Body::LABELS).
    fn label(&self) -> &'static str;

    /// The author and the conversation of the command that led to it.
    fn scope(&self) -> CommandScope;

    /// Whether the event concerns its author alone: only the author's devices receive it.
    fn is_for_author(&self) -> bool;

    /// What its texts and lists take, bytes.
    fn extra_bytes(&self) -> usize;

    /// The read positions between two users that the event raises, unless they are higher already.
    fn read_positions(&self) -> [Option<ReadPosition>; 2] {
        [None; 2]
    }
}

/// The scope in which a command's id is unique: its author and its recipient. Both are `None` for control; a profile has no recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommandScope {
    /// The user who gives the command.
    pub author: Option<UserId>,
    /// The other side of the conversation.
    pub to: Option<Recipient>,
}

impl CommandScope {
    /// The scope of the operators' commands.
    pub(crate) const CONTROL: Self = Self {
        author: None,
        to: None,
    };

    pub(crate) fn of_conversation(author: UserId, to: Recipient) -> Self {
        Self {
            author: Some(author),
            to: Some(to),
        }
    }

    pub(crate) fn of_user(author: UserId) -> Self {
        Self {
            author: Some(author),
            to: None,
        }
    }

    /// The conversation; `None` for a profile and for control.
    #[must_use]
    pub fn conversation(self) -> Option<ConversationId> {
        Some(self.to?.conversation_with(self.author?))
    }

    /// The partition of the records: that of the conversation, or of the author if there is none; `None` for control, which is in every partition.
    #[must_use]
    pub fn partition(self) -> Option<Partition> {
        match (self.author, self.to) {
            (Some(author), Some(to)) => Some(to.conversation_with(author).partition()),
            (Some(author), None) => Some(Partition::of_user(author)),
            (None, _) => None,
        }
    }

    /// The key of the records in both topics: the conversation, or `u:` and the author; empty for control.
    pub fn key(self) -> impl fmt::Display {
        fmt::from_fn(move |f| match (self.conversation(), self.author) {
            (Some(conversation), _) => conversation.fmt(f),
            (None, Some(author)) => write!(f, "u:{author}"),
            (None, None) => Ok(()),
        })
    }
}

/// By what a repeat of a command is recognised. A producer posts a command again if it does not know the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Retry {
    /// Its client_msg_id.
    ClientMsgId,
    /// Its command_id.
    CommandId,
    /// Its command_id, from rule version 4 on. The command reads up to the latest message, so below version 4 a repeat also reads messages that came
    /// since.
    CommandIdOfLatest,
    /// Its command_id, from rule version 4 on. The command deletes a contact with all messages so far, so below version 4 a repeat also deletes those
    /// that came since.
    CommandIdOfDeletion,
}

impl Retry {
    /// What the producer can do, for people.
    #[must_use]
    pub fn advice(self) -> &'static str {
        match self {
            Self::ClientMsgId => "retry with the same client_msg_id",
            Self::CommandId => "retry with the same body and command_id",
            Self::CommandIdOfLatest => {
                "retry with the same body and command_id; below rule version 4, `latest` would also cover messages that came meanwhile"
            }
            Self::CommandIdOfDeletion => {
                "retry with the same body and command_id; below rule version 4, it would also cover messages that came meanwhile"
            }
        }
    }
}

/// Whether the dead letter of a command may be posted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redrive {
    /// Always: its client_msg_id shows whether it is sequenced already.
    Send,
    /// Only if this message existed when the command was posted. Otherwise the command would now apply to a message that came later.
    IfMessageExisted(Mid),
    /// Never, for this reason.
    Never(&'static str),
}

/// The users who may look up a command that concerns everybody in the conversation: both users; in a group only its author.
fn both_users_or_author(author: UserId, to: Recipient) -> Vec<UserId> {
    match to {
        Recipient::User(peer) => vec![author, peer],
        Recipient::Group(_) => vec![author],
    }
}

/// The name of the first field whose values differ.
fn first_unequal<const N: usize>(pairs: [(&'static str, bool); N]) -> Option<&'static str> {
    let unequal = pairs.into_iter().find(|(_, equal)| !equal);
    unequal.map(|(name, _)| name)
}

/// The field that names the recipient: `user_field`, or that of a group.
fn recipient_field(user_field: &'static str, to: Recipient) -> &'static str {
    match to {
        Recipient::User(_) => user_field,
        Recipient::Group(_) => "gid",
    }
}
