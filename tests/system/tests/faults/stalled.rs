//! Kafka stands still: the sequencer is not ready, says so, and goes on afterwards.

use anyhow::Result;
use rustix::process::Signal;
use system_tests::{Servers, Settings, TestEnv, new_users, run, until};

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
    until(&format!("the sequencer says {what}"), async || {
        let readiness = env.get("sequencer", "/readyz").await;
        let readiness = readiness.map_err(|error| format!("{error:#}"))?.to_string();
        if readiness.contains(what) {
            Ok(())
        } else {
            Err(readiness)
        }
    })
    .await
}
