use serde_json::{Value, json};

use crate::{
    args::{AckArgs, ReadMid},
    context::CommandContext,
};

pub(super) async fn run(
    context: &CommandContext,
    args: &AckArgs,
    json: bool,
) -> anyhow::Result<()> {
    let mut body = json!({ "uid": args.uid, "peer": args.peer, "device": args.device });
    body["mid"] = match args.mid {
        ReadMid::Latest => Value::from("latest"),
        ReadMid::Mid(mid) => Value::from(mid),
    };
    let accepted: Value = context.client()?.post("/v1/read-acks", &body).await?;
    if json {
        println!("{accepted}");
    } else {
        println!("on the log at {}", super::position_of(&accepted));
    }
    Ok(())
}
