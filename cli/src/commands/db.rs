use serde_json::json;

use crate::{context::CommandContext, times};

pub(super) async fn apply(context: &CommandContext, json: bool) -> anyhow::Result<()> {
    let report = context.messages()?.apply_schema(times::now()).await?;
    if json {
        println!(
            "{}",
            json!({
                "databases": report.databases,
                "migrations": report.migrations,
                "months": report.months,
            })
        );
    } else {
        println!("{report}");
    }
    Ok(())
}
