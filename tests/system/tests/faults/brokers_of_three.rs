//! Three brokers: an acknowledgement is never one broker's word.

use anyhow::{Result, ensure};
use rustix::process::Signal;
use schemas::topics::Topic;
use serde_json::{Value, json};
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

/// A cluster whose own defaults are as weak as Kafka's: the topic's settings decide.
#[test]
fn a_topic_of_three_copies_needs_two_of_them_for_an_acknowledgement() {
    const WITHOUT_SERVICES: Settings = Settings {
        without_services: true,
        ..CLUSTER
    };
    run(Servers::Own(WITHOUT_SERVICES), async |env| {
        recreate_inbound(env, "3").await?;
        let weak = [
            "min.insync.replicas = 1, declared 2",
            "unclean.leader.election.enable = true, declared false",
        ];
        let diff = env.tidemark(&["topics", "diff"]).await?.expect(1)?.said();
        ensure!(weak.iter().all(|weak| diff.contains(weak)), "{diff}");
        env.start_services(&["ingest"]).await?;
        warns(env, &weak).await?;
        env.tidemark(&["topics", "apply"]).await?.expect(0)?;
        env.tidemark(&["topics", "diff"]).await?.expect(0)?;
        warns(env, &[]).await?;

        recreate_inbound(env, "1").await?;
        let weak = "1 copies, declared 3";
        warns(env, &[weak]).await?;
        let left = env.tidemark(&["topics", "apply"]).await?.expect(1)?.said();
        ensure!(left.contains(weak), "{left}");
        Ok(())
    });
}

/// `chat.inbound` as weak as Kafka makes topics for whoever declares nothing.
async fn recreate_inbound(env: &TestEnv, copies: &str) -> Result<()> {
    let topic = env.events.config().topic(Topic::Inbound);
    env.kafka_tool("TopicCommand", &["--delete", "--topic", &topic])
        .await?;
    let create = [
        "--create",
        "--topic",
        &topic,
        "--partitions",
        "64",
        "--replication-factor",
        copies,
        "--config",
        "min.insync.replicas=1",
        "--config",
        "unclean.leader.election.enable=true",
    ];
    // The topic is deleted in the background.
    until("the topic to be made", async || {
        let made = env.kafka_tool("TopicCommand", &create).await;
        made.map(drop).map_err(|error| format!("{error:#}"))
    })
    .await
}

/// Waits until ingest is ready and warns of exactly this.
async fn warns(env: &TestEnv, of: &[&str]) -> Result<()> {
    let warns = |readiness: &Value| {
        let gates = readiness["gates"].as_array().into_iter().flatten();
        let warnings = gates.filter_map(|gate| gate["warning"].as_str());
        let warning = warnings.collect::<String>();
        readiness["ready"] == true
            && of.iter().all(|of| warning.contains(of))
            && of.is_empty() == warning.is_empty()
    };
    env.until_readiness("ingest", &format!("warns of {of:?}"), warns)
        .await
        .map(drop)
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
