use schemas::{Recipient, command::ReadAck};
use serde_json::json;

use crate::{answers, args::AckArgs, context::CommandContext};

pub(super) async fn run(
    context: &CommandContext,
    args: &AckArgs,
    json: bool,
) -> anyhow::Result<()> {
    let ack = ReadAck {
        uid: args.uid,
        to: Recipient::User(args.peer),
        device: args.device,
        mid: args.mid.up_to(),
    };
    let accepted = context.client()?.post_command(ack).await?;
    let text = format!("on the log at {}", accepted.position());
    answers::show(json, json!(accepted), text);
    Ok(())
}
