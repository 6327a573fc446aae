use serde_json::json;

use crate::{handles::Handles, times};

pub(super) async fn apply(handles: &Handles, json: bool) -> anyhow::Result<()> {
    let report = handles.messages()?.apply_schema(times::now()).await?;
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
