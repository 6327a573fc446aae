use schemas::InboundPosition;
use serde_json::Value;

use crate::{answers, context::CommandContext};

pub(super) async fn run(
    context: &CommandContext,
    position: InboundPosition,
    json: bool,
) -> anyhow::Result<()> {
    let path = format!("/v1/inbound/{}/{}", position.partition, position.offset);
    let answer: Value = context.client()?.get(&path).await?;
    let table = answers::fields(["", ""], &answer).to_string();
    answers::show(json, &answer, table.trim());
    Ok(())
}
