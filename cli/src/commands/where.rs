use std::process::ExitCode;

use schemas::InboundPosition;
use serde_json::Value;

use crate::{context::CommandContext, output::Table};

pub(super) async fn run(
    context: &CommandContext,
    position: InboundPosition,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let path = format!("/v1/inbound/{}/{}", position.partition, position.offset);
    let answer: Value = context.client()?.get(&path).await?;
    if json {
        println!("{answer}");
    } else {
        let mut table = Table::new(["", ""]);
        for (name, value) in answer.as_object().into_iter().flatten() {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            table.row([name.clone(), value]);
        }
        print!("{}", table.to_string().trim_start());
    }
    Ok(ExitCode::SUCCESS)
}
