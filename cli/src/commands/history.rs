use client::Query;
use serde_json::Value;

use crate::{answers, args::HistoryArgs, context::CommandContext, output::Table};

pub(super) async fn run(
    context: &CommandContext,
    args: &HistoryArgs,
    json: bool,
) -> anyhow::Result<()> {
    let path = format!(
        "/v1/users/{}/conversations/{}/messages",
        args.uid, args.peer
    );
    let query = Query::of(path)
        .with("device", args.device)
        .with("before_mid", args.before_mid)
        .with("after_mid", args.after_mid)
        .with("limit", args.limit)
        .with("after", &args.after);
    let answer: Value = context.client()?.get(query.path()).await?;
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
