use serde_json::Value;

use crate::{answers, args::ChangesArgs, context::CommandContext, output::Table};

pub(super) async fn run(
    context: &CommandContext,
    args: &ChangesArgs,
    json: bool,
) -> anyhow::Result<()> {
    let mut query: Vec<(&str, String)> = Vec::new();
    query.extend(behind(args.after_chg, args.after_own_pos));
    query.extend(args.limit.map(|limit| ("limit", limit.to_string())));
    query.extend(
        args.after
            .iter()
            .map(|position| ("after", position.to_string())),
    );
    let path = format!("/v1/users/{}/conversations/{}/changes", args.uid, args.peer);
    let path = answers::with_query(&path, &query);
    let answer: Value = context.client()?.get(&path).await?;
    if json {
        println!("{answer}");
    } else {
        answers::print_page(&answer, &table(&answer));
    }
    Ok(())
}

/// The parameters for the changes that a caller has already.
pub(super) fn behind(
    after_chg: Option<i64>,
    after_own_pos: Option<i64>,
) -> impl Iterator<Item = (&'static str, String)> {
    let all = [("after_chg", after_chg), ("after_own_pos", after_own_pos)];
    all.into_iter()
        .filter_map(|(name, value)| Some((name, value?.to_string())))
}

/// The number of a change. A change that only its author learns of has none.
fn number(item: &Value) -> String {
    let chg = item["chg"].as_i64().filter(|chg| *chg > 0);
    chg.map_or_else(String::new, |chg| chg.to_string())
}

pub(super) fn table(answer: &Value) -> Table {
    let mut table = Table::new(["chg", "time", "mid", "kind", "text"]).right(&[0, 2]);
    for item in answer["items"].as_array().into_iter().flatten() {
        let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
        table.row([
            number(item),
            text("ts"),
            item["mid"].to_string(),
            text("kind"),
            text("msg"),
        ]);
    }
    table
}
