use std::collections::BTreeMap;

use client::Query;
use serde_json::Value;

use crate::{
    answers::{self, items, text},
    args::HistoryArgs,
    context::CommandContext,
    output::Table,
};

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
    answers::ask(&context.client()?, &query, json, table).await
}

pub(super) fn table(answer: &Value) -> Table {
    let columns = ["mid", "time", "from", "state", "text", "reactions"];
    let mut table = Table::new(columns).right(&[0, 2]);
    for item in items(answer) {
        table.row([
            item["mid"].to_string(),
            text(item, "ts"),
            text(item, "srcid"),
            state(item).to_owned(),
            text(item, "msg"),
            reactions(item),
        ]);
    }
    table
}

/// Each emoji and how many users have reacted with it, as `👍 2 🎉 1`.
fn reactions(item: &Value) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let reactions = item["reactions"].as_object().into_iter().flatten();
    for emoji in reactions.filter_map(|(_, emoji)| emoji.as_str()) {
        *counts.entry(emoji).or_default() += 1;
    }
    let counts = counts
        .iter()
        .map(|(emoji, count)| format!("{emoji} {count}"));
    counts.collect::<Vec<_>>().join(" ")
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
