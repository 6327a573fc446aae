//! How a repeat of a command other than a send is recognised (PROTOCOL S15).

use crate::{CommandId, malformed::Malformed, proto};

/// The command that an event answers, as the event names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedCommand {
    /// Its id.
    pub id: CommandId,
    /// A hash of what it asked for, under the partition's `hash_key`.
    pub content: u32,
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
