use schemas::TimestampMs;
use time::OffsetDateTime;

use crate::handles::Handles;

pub(super) async fn apply(handles: &Handles, json: bool) -> anyhow::Result<()> {
    let report = handles.messages()?.apply_schema(now()).await?;
    if json {
        println!("{}", serde_json::to_string(&report)?);
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
