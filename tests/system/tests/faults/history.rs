//! What a conversation must hold.

use anyhow::{Result, ensure};
use schemas::InboundPosition;
use serde_json::json;
use system_tests::TestEnv;

/// No earlier than `after`, the two have these texts between them, numbered from 1, and no others.
pub async fn told(
    env: &TestEnv,
    [from, to]: [i64; 2],
    after: InboundPosition,
    expected: &[impl AsRef<str>],
) -> Result<()> {
    let items = env.client.history(from, to, &[after]).await?;
    let told: Vec<_> = items
        .iter()
        .map(|item| json!([item["mid"], item["msg"]]))
        .collect();
    let expected: Vec<_> = (1..)
        .zip(expected)
        .map(|(mid, msg)| json!([mid, msg.as_ref()]))
        .collect();
    ensure!(told == expected, "{told:?}, expected {expected:?}");
    Ok(())
}
