use client::{AcceptedBody, ReadAckBody, new_command_id};

use crate::{answers, args::AckArgs, context::CommandContext};

pub(super) async fn run(
    context: &CommandContext,
    args: &AckArgs,
    json: bool,
) -> anyhow::Result<()> {
    let body = ReadAckBody {
        uid: args.uid,
        peer: Some(args.peer),
        gid: None,
        device: args.device,
        mid: args.mid.up_to()?,
        command_id: Some(new_command_id()),
    };
    let accepted: AcceptedBody = context.client()?.post("/v1/read-acks", &body).await?;
    if json {
        answers::print_json(&accepted);
    } else {
        println!("on the log at {}", accepted.position());
    }
    Ok(())
}
