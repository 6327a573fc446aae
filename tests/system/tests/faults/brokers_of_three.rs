//! Two of three brokers are gone: an acknowledgement would be one broker's word, so there is none.

use anyhow::{Result, ensure};
use rustix::process::Signal;
use serde_json::json;
use system_tests::{Load, Servers, Settings, TestEnv, new_users, run, until};

const CLUSTER: Settings = Settings {
    kafka_nodes: 3,
    overrides: &[
        "ingest.message_timeout_ms=2000",
        "ingest.request_deadline_ms=3000",
    ],
    ..Settings::USUAL
};

#[test]
fn sends_are_refused_until_a_second_broker_is_back() {
    run(Servers::Own(CLUSTER), async |env| {
        let mut load = Load::start(env, 8);
        load.grows_by(300).await?;
        for broker in ["kafka-2", "kafka-3"] {
            env.end(broker, Signal::KILL).await?;
        }
        let [from, to] = new_users();
        is_refused(env, from, to).await?;
        env.start_servers().await?;

        let accepted = env.client.send(from, to, "id", "text").await?;
        let items = env.client.history(from, to, &[accepted]).await?;
        ensure!(items.len() == 1, "posted again and again: {items:?}");
        load.grows_by(300).await?;
        load.finish().await?.judge(env).await
    });
}

/// Waits for 503; nothing is accepted meanwhile.
async fn is_refused(env: &TestEnv, from: i64, to: i64) -> Result<()> {
    let message = json!({
        "srcid": from.to_string(),
        "destid": to.to_string(),
        "client_msg_id": "id",
        "msg": "text",
    });
    until("a refusal", async || {
        match env.client.post("/v1/messages", &message).await {
            Ok(answer) if answer.status == 503 => Ok(()),
            Ok(answer) => Err(format!("{} {}", answer.status, answer.body)),
            Err(error) => Err(format!("{error:#}")),
        }
    })
    .await
}
