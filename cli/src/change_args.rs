//! Commands that change messages.

use schemas::{Change, GroupId, Mid, UserId};

use crate::read_mid::message_number;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ChangeCommand {
    /// Take a message's text back, for both sides
    Recall(ChangeArgs),
    /// Delete a message for both sides, where the rules allow it
    Delete(ChangeArgs),
    /// Give a message another text
    Edit(EditArgs),
    /// Hide a message from one user
    Hide(ChangeArgs),
    /// Clear a user's history, up to a message
    Clear(ChangeArgs),
}

/// Which message is changed.
#[derive(Debug, clap::Args)]
pub(crate) struct ChangeArgs {
    /// Who makes the change
    #[arg(long)]
    pub(crate) by: UserId,
    /// The other user of the conversation
    #[arg(long, required_unless_present = "gid", conflicts_with = "gid")]
    pub(crate) peer: Option<UserId>,
    /// In place of it: the group
    #[arg(long)]
    pub(crate) gid: Option<GroupId>,
    /// The message's number
    #[arg(long, value_parser = message_number)]
    pub(crate) mid: Mid,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EditArgs {
    #[command(flatten)]
    message: ChangeArgs,
    /// The new text
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    msg: String,
}

impl ChangeCommand {
    /// Which message is changed, and how.
    pub(crate) fn into_parts(self) -> (ChangeArgs, Change) {
        match self {
            Self::Recall(message) => (message, Change::Recall),
            Self::Delete(message) => (message, Change::Delete),
            Self::Edit(EditArgs { message, msg }) => (message, Change::Edit(msg)),
            Self::Hide(message) => (message, Change::Hide),
            Self::Clear(message) => (message, Change::Clear),
        }
    }
}
