//! Kafka stands still: the sequencer is not ready, says so, and goes on afterwards.

use anyhow::Result;
use rustix::process::Signal;
use serde_json::Value;
use system_tests::{Servers, Settings, TestEnv, new_users, run};

#[test]
fn a_sequencer_whose_brokers_stand_still_is_not_ready() {
    run(Servers::Own(Settings::default()), async |env| {
        let [from, to] = new_users();
        let before = env.client.send(from, to, "before", "before").await?;
        env.client.history(from, to, &[before]).await?;

        env.signal("kafka", Signal::STOP)?;
        let named = says(env, "Kafka does not answer").await;
        env.signal("kafka", Signal::CONT)?;
        named?;
        says(env, "\"ready\":true").await?;

        let after = env.client.send(from, to, "after", "after").await?;
        env.client.history(from, to, &[after]).await?;
        env.audit([from, to]).await?;
        Ok(())
    });
}

/// Waits until `/readyz` of the sequencer says this.
async fn says(env: &TestEnv, what: &str) -> Result<()> {
    let says_so = |readiness: &Value| readiness.to_string().contains(what);
    env.until_readiness("sequencer", &format!("says {what}"), says_so)
        .await
        .map(drop)
}
