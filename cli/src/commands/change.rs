//! Changes to messages.

use schemas::{ChangeMessage, Recipient};

use crate::{answers, change_args::ChangeCommand, context::CommandContext, failure::Failure};

/// Posts a change.
pub(super) async fn run(
    context: &CommandContext,
    command: ChangeCommand,
    json: bool,
) -> anyhow::Result<()> {
    let (message, change) = command.into_parts();
    let user = message.peer.map(Recipient::User);
    let to = user.or(message.gid.map(Recipient::Group));
    let change = ChangeMessage {
        by: message.by,
        to: to.ok_or_else(|| Failure::Usage("--peer or --gid is missing".to_owned()))?,
        mid: message.mid,
        change,
    };
    let accepted = context.client()?.post_command(change).await?;
    answers::print_accepted(&accepted, json);
    Ok(())
}
