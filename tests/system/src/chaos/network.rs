//! Faults of connections: they hang instead of closing.

use std::time::Duration;

use anyhow::{Context as _, Result};
use rand::seq::IndexedRandom as _;
use schemas::PARTITIONS;
use tokio::time::sleep;

use super::victim::Victim;
use crate::{Proxy, until};

/// Longer than any client waits for an answer of a broker before it asks another one.
const HANGS: Duration = Duration::from_secs(12);

pub(super) async fn hang_broker(victim: &mut Victim<'_>) -> Result<u64> {
    let proxies = &victim.env.network()?.kafka;
    hang(proxies.choose(victim.rng).context("no broker")?).await
}

pub(super) async fn hang_redis(victim: &mut Victim<'_>) -> Result<u64> {
    hang(&victim.env.network()?.redis).await
}

pub(super) async fn hang_mariadb(victim: &mut Victim<'_>) -> Result<u64> {
    let proxies = &victim.env.network()?.mariadb;
    hang(proxies.choose(victim.rng).context("no MariaDB")?).await
}

async fn hang(proxy: &Proxy) -> Result<u64> {
    proxy.hold_all();
    sleep(HANGS).await;
    proxy.release();
    Ok(1)
}

/// A batch that a sequencer had sent before it died arrives after its successor has worked for a while.
pub(super) async fn late_batch(victim: &mut Victim<'_>) -> Result<u64> {
    let late = victim.either("sequencer");
    let successor = match late.as_str() {
        "sequencer" => "sequencer-2",
        _ => "sequencer",
    };
    let (env, network) = (victim.env, victim.env.network()?);
    let pid = env.pid(&late).context("no sequencer")?;
    for proxy in &network.kafka {
        proxy.hold_those_of(pid)?;
    }
    victim.meanwhile().await?;
    victim.kill(&late).await?;
    owns_all(victim, successor).await?;
    victim.meanwhile().await?;
    network.kafka.iter().for_each(Proxy::release);
    victim.env.start_services(&[&late]).await?;
    Ok(1)
}

async fn owns_all(victim: &Victim<'_>, sequencer: &str) -> Result<()> {
    until(&format!("{sequencer} to own all partitions"), async || {
        let status = victim.env.get(sequencer, "/status").await;
        let status = status.map_err(|error| format!("{error:#}"))?;
        match status["partitions"].as_object().map_or(0, |all| all.len()) {
            all if all == usize::from(PARTITIONS) => Ok(()),
            some => Err(format!("{some} partitions")),
        }
    })
    .await
}
