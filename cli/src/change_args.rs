//! Commands that change messages.

use schemas::{Change, GroupId, Mid, UserId};

use crate::read_mid::message_number;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ChangeCommand {
    /// Take a message's text back, for everybody in the conversation
    Recall(ChangeArgs),
    /// Delete a message for everybody in the conversation, if the rules allow it
    Delete(ChangeArgs),
    /// Give a message another text
    Edit(EditArgs),
    /// React to a message with an emoji
    React(ReactArgs),
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
    /// The group, in place of --peer
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

#[derive(Debug, clap::Args)]
pub(crate) struct ReactArgs {
    #[command(flatten)]
    message: ChangeArgs,
    /// The emoji, which replaces the user's former reaction to the message
    #[arg(value_parser = reaction, required_unless_present = "take_back")]
    emoji: Option<Change>,
    /// Take the former reaction back, in place of an emoji
    #[arg(long, conflicts_with = "emoji")]
    take_back: bool,
}

fn reaction(emoji: &str) -> Result<Change, String> {
    if emoji.is_empty() {
        return Err("is empty; --take-back takes a reaction back".to_owned());
    }
    Change::react("emoji", emoji.to_owned()).map_err(|wrong| wrong.problem)
}

impl ChangeCommand {
    /// Which message is changed, and how.
    pub(crate) fn into_parts(self) -> (ChangeArgs, Change) {
        match self {
            Self::Recall(message) => (message, Change::Recall),
            Self::Delete(message) => (message, Change::Delete),
            Self::Edit(EditArgs { message, msg }) => (message, Change::Edit(msg)),
            Self::React(ReactArgs { message, emoji, .. }) => {
                let take_back = || Change::React(String::new());
                (message, emoji.unwrap_or_else(take_back))
            }
            Self::Hide(message) => (message, Change::Hide),
            Self::Clear(message) => (message, Change::Clear),
        }
    }
}
