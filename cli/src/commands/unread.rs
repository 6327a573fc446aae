use client::Query;
use schemas::DeviceClass;
use serde_json::Value;

use crate::{args::UnreadArgs, context::CommandContext, output::Table};

pub(super) async fn run(
    context: &CommandContext,
    args: &UnreadArgs,
    json: bool,
) -> anyhow::Result<()> {
    let client = context.client()?;
    let devices = args
        .device
        .map_or(DeviceClass::ALL.to_vec(), |device| vec![device]);
    let mut table = Table::new(["device", "sender", "unread"]).right(&[1, 2]);
    for device in devices {
        let query = Query::of(format!("/v1/users/{}/unread", args.uid))
            .with("device", [device])
            .with("after", &args.after);
        let answer: Value = client.get(query.path()).await?;
        if json {
            println!("{answer}");
        }
        for (sender, count) in answer["unread"].as_object().into_iter().flatten() {
            table.row([device.to_string(), sender.clone(), count.to_string()]);
        }
        let total = answer
            .get("total")
            .map_or_else(|| "0".to_owned(), Value::to_string);
        table.row([device.to_string(), "total".to_owned(), total]);
    }
    if !json {
        print!("{table}");
    }
    Ok(())
}
