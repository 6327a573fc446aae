use schemas::DeviceClass;
use serde_json::Value;

use crate::{answers, args::UnreadArgs, context::CommandContext, output::Table};

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
        let mut query = vec![("device", device.to_string())];
        query.extend(
            args.after
                .iter()
                .map(|position| ("after", position.to_string())),
        );
        let path = format!("/v1/users/{}/unread", args.uid);
        let answer: Value = client.get(&answers::with_query(&path, &query)).await?;
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
