//! By what a repeat of a command other than a send is recognised (PROTOCOL S15).

use crate::{
    CommandId, Recipient, UserId,
    command::{Command, Malformed},
    event::Body,
    proto,
};

/// The command that an event answers, as the event names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedCommand {
    /// Its id.
    pub id: CommandId,
    /// A hash of what it asked for, under the partition's `hash_key`.
    pub content: u32,
}

/// Within what a command's id is unique: its author, and what it is said to. Both are `None` for control, and a profile is said to nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommandScope {
    /// Who gives the command.
    pub author: Option<UserId>,
    /// The other side of the conversation.
    pub to: Option<Recipient>,
}

impl CommandScope {
    const CONTROL: Self = Self {
        author: None,
        to: None,
    };

    fn new(author: UserId, to: Recipient) -> Self {
        Self {
            author: Some(author),
            to: Some(to),
        }
    }
}

impl Command {
    /// Within what its id is unique.
    #[must_use]
    pub fn scope(&self) -> CommandScope {
        match self {
            Self::Send(send) => CommandScope::new(send.srcid, send.to),
            Self::ReadAck(ack) => CommandScope::new(ack.uid, ack.to),
            Self::ChangeMessage(change) => CommandScope::new(change.by, change.to),
            Self::ChangeContact(change) => {
                CommandScope::new(change.uid, Recipient::User(change.peer))
            }
            Self::ChangeGroup(change) => CommandScope::new(change.by, Recipient::Group(change.gid)),
            Self::SetProfile(profile) => CommandScope {
                author: Some(profile.uid),
                to: None,
            },
            Self::Control(_) => CommandScope::CONTROL,
        }
    }
}

impl Body {
    /// Within what the id of the command that led to it is unique; `None` for progress, to which none leads.
    #[must_use]
    pub fn scope(&self) -> Option<CommandScope> {
        Some(match self {
            Self::Message(message) => CommandScope::new(message.srcid, message.to),
            Self::ReadPosition(position) => CommandScope::new(position.uid, position.to),
            Self::MessageChange(change) => CommandScope::new(change.by, change.to),
            Self::ContactChange(change) => {
                CommandScope::new(change.uid, Recipient::User(change.peer))
            }
            Self::GroupChange(change) => CommandScope::new(change.by, Recipient::Group(change.gid)),
            Self::Profile(profile) => CommandScope {
                author: Some(profile.uid),
                to: None,
            },
            Self::Control(_) => CommandScope::CONTROL,
            Self::Progress => return None,
        })
    }
}

impl TryFrom<proto::AppliedCommand> for AppliedCommand {
    type Error = Malformed;

    fn try_from(command: proto::AppliedCommand) -> Result<Self, Malformed> {
        let id = command.id.try_into();
        Ok(Self {
            id: id.map_err(|e| Malformed::new("command.id", e))?,
            content: command.content,
        })
    }
}

impl From<AppliedCommand> for proto::AppliedCommand {
    fn from(command: AppliedCommand) -> Self {
        Self {
            id: command.id.into_string(),
            content: command.content,
        }
    }
}
