//! What a conversation must hold.

use anyhow::{Result, ensure};
use schemas::InboundPosition;
use serde_json::json;
use system_tests::TestEnv;

/// Checks that the conversation holds exactly these texts, numbered from 1, once it reflects `after`.
pub async fn expect_texts(
    env: &TestEnv,
    [from, to]: [i64; 2],
    after: InboundPosition,
    expected: &[impl AsRef<str>],
) -> Result<()> {
    let items = env.client.history(from, to, &[after]).await?;
    let texts: Vec<_> = items
        .iter()
        .map(|item| json!([item["mid"], item["msg"]]))
        .collect();
    let expected: Vec<_> = (1..)
        .zip(expected)
        .map(|(mid, msg)| json!([mid, msg.as_ref()]))
        .collect();
    ensure!(texts == expected, "{texts:?}, expected {expected:?}");
    Ok(())
}
