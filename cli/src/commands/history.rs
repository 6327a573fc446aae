use serde_json::Value;

use crate::{answers, args::HistoryArgs, context::CommandContext, output::Table};

pub(super) async fn run(
    context: &CommandContext,
    args: &HistoryArgs,
    json: bool,
) -> anyhow::Result<()> {
    let mut query: Vec<(&str, String)> = Vec::new();
    query.extend(args.device.map(|device| ("device", device.to_string())));
    query.extend(args.before_mid.map(|mid| ("before_mid", mid.to_string())));
    query.extend(args.after_mid.map(|mid| ("after_mid", mid.to_string())));
    query.extend(args.limit.map(|limit| ("limit", limit.to_string())));
    query.extend(
        args.after
            .iter()
            .map(|position| ("after", position.to_string())),
    );
    let path = format!(
        "/v1/users/{}/conversations/{}/messages",
        args.uid, args.peer
    );
    let path = answers::with_query(&path, &query);
    let answer: Value = context.client()?.get(&path).await?;
    if json {
        println!("{answer}");
    } else {
        answers::print_page(&answer, &table(&answer));
    }
    Ok(())
}

pub(super) fn table(answer: &Value) -> Table {
    let mut table = Table::new(["mid", "time", "from", "state", "text"]).right(&[0, 2]);
    for item in answer["items"].as_array().into_iter().flatten() {
        let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
        table.row([
            item["mid"].to_string(),
            text("ts"),
            text("srcid"),
            state(item).to_owned(),
            text("msg"),
        ]);
    }
    table
}

fn state(item: &Value) -> &'static str {
    if item["recalled"] == true {
        "recalled"
    } else if item["edited_ts"].is_string() {
        "edited"
    } else {
        ""
    }
}
