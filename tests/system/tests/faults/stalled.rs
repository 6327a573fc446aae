//! Servers that stand still, or answer reads and take no writes: services are not ready, say so, and go on afterwards.

use anyhow::{Result, ensure};
use rustix::process::Signal;
use serde_json::Value;
use system_tests::{Servers, Settings, TestEnv, new_users, run};

const MAX: &str = "maxmemory";
const NO_WRITES: &str = "REVOKE READ ONLY ADMIN ON *.* FROM 'tidemark'@'127.0.0.1'; \
    SET GLOBAL read_only = 1; KILL USER 'tidemark'@'127.0.0.1'";

#[test]
fn a_sequencer_whose_brokers_stand_still_is_not_ready() {
    run(Servers::Own(Settings::default()), async |env| {
        let [from, to] = new_users();
        let before = env.client.send(from, to, "before", "before").await?;
        env.client.history(from, to, &[before]).await?;

        env.signal("kafka", Signal::STOP)?;
        let named = says(env, "sequencer", "Kafka does not answer").await;
        env.signal("kafka", Signal::CONT)?;
        named?;
        is_ready(env, "sequencer").await?;

        let after = env.client.send(from, to, "after", "after").await?;
        env.client.history(from, to, &[after]).await?;
        env.audit([from, to]).await?;
        Ok(())
    });
}

#[test]
fn stores_that_take_no_writes_are_named() {
    run(Servers::Own(Settings::default()), async |env| {
        let [from, to] = new_users();
        let first = env.client.send(from, to, "first", "first").await?;
        env.client.history(from, to, &[first]).await?;
        ensure!(warnings(env, 0).await? == "[]");

        env.redis.command(&["CONFIG", "SET", MAX, "1"]).await?;
        env.client.send(from, to, "second", "second").await?;
        says(env, "projector-unread", "takes no writes: raise that").await?;
        let full = warnings(env, 1).await?;
        ensure!(
            full.contains("Redis has as much as its maxmemory"),
            "{full}"
        );
        env.redis.command(&["CONFIG", "SET", MAX, "0"]).await?;
        is_ready(env, "projector-unread").await?;

        let evicting = ["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"];
        env.redis.command(&evicting).await?;
        let evicts = warnings(env, 0).await?;
        ensure!(
            evicts.contains("allkeys-lru; must be noeviction"),
            "{evicts}"
        );

        env.execute_sql("mariadb", NO_WRITES).await?;
        let third = env.client.send(from, to, "third", "third").await?;
        says(env, "projector-mysql", "--read-only").await?;
        let read_only = warnings(env, 1).await?;
        ensure!(read_only.contains("is read-only"), "{read_only}");
        env.execute_sql("mariadb", "SET GLOBAL read_only = 0")
            .await?;
        is_ready(env, "projector-mysql").await?;
        env.client.history(from, to, &[third]).await?;
        env.audit([from, to]).await?;
        Ok(())
    });
}

/// What `tidemark status` warns of, as it ends with this code.
async fn warnings(env: &TestEnv, code: i32) -> Result<String> {
    let status = env.tidemark(&["status", "--json"]).await?;
    Ok(status.expect(code)?.json()?["warnings"].to_string())
}

async fn is_ready(env: &TestEnv, service: &str) -> Result<()> {
    let is_ready = |readiness: &Value| readiness["ready"] == true;
    let ready = env.until_readiness(service, "is ready", is_ready);
    ready.await.map(drop)
}

/// Waits until `/readyz` of a service says this.
async fn says(env: &TestEnv, service: &str, what: &str) -> Result<()> {
    let says_so = |readiness: &Value| readiness.to_string().contains(what);
    env.until_readiness(service, &format!("says {what}"), says_so)
        .await
        .map(drop)
}
