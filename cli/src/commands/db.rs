use serde_json::json;

use crate::{answers, context::CommandContext, times};

pub(super) async fn apply(context: &CommandContext, json: bool) -> anyhow::Result<()> {
    let report = context.messages()?.apply_schema(times::now()).await?;
    let value = json!({
        "databases": report.databases,
        "migrations": report.migrations,
        "months": report.months,
    });
    answers::show(json, value, report);
    Ok(())
}
