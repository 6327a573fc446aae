use client::Query;
use serde_json::Value;

use crate::{
    answers::{self, items, text},
    args::ChangesArgs,
    context::CommandContext,
    output::Table,
};

pub(super) async fn run(
    context: &CommandContext,
    args: &ChangesArgs,
    json: bool,
) -> anyhow::Result<()> {
    let path = format!("/v1/users/{}/conversations/{}/changes", args.uid, args.peer);
    let query = Query::of(path)
        .with("after_chg", args.after_chg)
        .with("after_own_pos", args.after_own_pos)
        .with("limit", args.limit)
        .with("after", &args.after);
    answers::ask(&context.client()?, &query, json, table).await
}

/// The number of a change. A change that only its author learns of has none.
fn number(item: &Value) -> String {
    let change_seq = item["chg"].as_i64().filter(|change_seq| *change_seq > 0);
    change_seq.map_or_else(String::new, |change_seq| change_seq.to_string())
}

pub(super) fn table(answer: &Value) -> Table {
    let mut table = Table::new(["chg", "time", "mid", "kind", "text"]).right(&[0, 2]);
    for item in items(answer) {
        table.row([
            number(item),
            text(item, "ts"),
            item["mid"].to_string(),
            text(item, "kind"),
            text(item, "msg"),
        ]);
    }
    table
}
