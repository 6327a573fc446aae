//! Changes to messages.

use schemas::{Change, ChangeMessage, Recipient};

use crate::{answers, args::ChangeArgs, context::CommandContext, failure::Failure};

/// Posts a change.
pub(super) async fn run(
    context: &CommandContext,
    args: &ChangeArgs,
    change: Change,
    json: bool,
) -> anyhow::Result<()> {
    let user = args.peer.map(Recipient::User);
    let to = user.or(args.gid.map(Recipient::Group));
    let change = ChangeMessage {
        by: args.by,
        to: to.ok_or_else(|| Failure::Usage("--peer or --gid is missing".to_owned()))?,
        mid: args.mid,
        change,
    };
    let accepted = context.client()?.change_message(&change).await?;
    answers::print_accepted(&accepted, json);
    Ok(())
}
