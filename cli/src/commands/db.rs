use schemas::TimestampMs;
use serde_json::json;
use time::OffsetDateTime;

use crate::handles::Handles;

pub(super) async fn apply(handles: &Handles, json: bool) -> anyhow::Result<()> {
    let report = handles.messages()?.apply_schema(now()).await?;
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

/// Months are made from the present one on; only this program reads the wall clock, never the log's readers.
pub(super) fn now() -> TimestampMs {
    let ms = OffsetDateTime::now_utc().unix_timestamp_nanos() / 1_000_000;
    TimestampMs(i64::try_from(ms).unwrap_or(i64::MAX))
}
