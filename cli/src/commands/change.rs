//! Changes to messages.

use client::{MessageChangeBody, new_command_id};

use crate::{answers, args::ChangeArgs, context::CommandContext, read_mid::message_number};

/// Posts a change of this kind; `msg` is the text of an edit.
pub(super) async fn run(
    context: &CommandContext,
    kind: &str,
    args: &ChangeArgs,
    msg: Option<&str>,
    json: bool,
) -> anyhow::Result<()> {
    let body = MessageChangeBody {
        by: args.by,
        peer: args.peer,
        gid: args.gid,
        mid: message_number(args.mid)?,
        kind: kind.to_owned(),
        msg: msg.map(str::to_owned),
        command_id: Some(new_command_id()),
    };
    let accepted = context.client()?.post("/v1/message-changes", &body).await?;
    answers::print_accepted(&accepted, json);
    Ok(())
}
