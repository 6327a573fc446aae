//! Kafka is stopped for a while in the middle of a load.

use anyhow::{Result, ensure};
use rustix::process::Signal;
use system_tests::{Load, Servers, Settings, TestEnv, run, until};

/// Short deadlines, so that posts end without a known outcome while Kafka is stopped.
const SHORT: Settings = Settings {
    overrides: &[
        "ingest.message_timeout_ms=1000",
        "ingest.request_deadline_ms=1500",
    ],
    ..Settings::USUAL
};

#[test]
fn posts_of_unknown_outcome_are_repeated_without_doubles_or_losses() {
    run(Servers::Own(SHORT), async |env| {
        let mut load = Load::start(env, 8);
        // The second pause is longer than the sessions of consumer groups.
        for unknown in [16, 100] {
            load.grows_by(300).await?;
            env.signal("kafka", Signal::STOP)?;
            let left_unknown = are_left_unknown(env, unknown).await;
            let sent = env.tidemark(&["send", "1", "2", "text", "--json"]).await;
            env.signal("kafka", Signal::CONT)?;
            left_unknown?;
            let sent = sent?.expect(4)?;
            let printed = sent.json()?;
            let id = printed["client_msg_id"].as_str().unwrap_or_default();
            let repeat = format!("--client-msg-id {id}`");
            ensure!(sent.stderr.contains(&repeat), "{sent:?}");
            load.grows_by(300).await?;
        }
        load.finish().await?.judge(env).await
    });
}

/// Waits until so many posts more were answered that their outcome is unknown.
async fn are_left_unknown(env: &TestEnv, posts: u64) -> Result<()> {
    let goal = env.client.unknown() + posts;
    until("unknown outcomes", async || match env.client.unknown() {
        now if now >= goal => Ok(()),
        now => Err(format!("{now} of {goal}")),
    })
    .await
}
