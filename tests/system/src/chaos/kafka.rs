//! Faults of brokers.

use std::time::Duration;

use anyhow::Result;
use rand::Rng as _;
use rustix::process::Signal;
use tokio::time::sleep;

use super::victim::Victim;

pub(super) const BROKERS: [&str; 3] = ["kafka", "kafka-2", "kafka-3"];
/// How long sends find no broker.
const NOBODY: Duration = Duration::from_secs(3);

pub(super) async fn kill(victim: &mut Victim<'_>) -> Result<u64> {
    let broker = victim.one_of(&BROKERS);
    victim.kill(broker).await?;
    victim.meanwhile().await?;
    victim.env.start_servers().await?;
    Ok(1)
}

pub(super) async fn restart_all(victim: &mut Victim<'_>) -> Result<u64> {
    for broker in BROKERS {
        victim.env.end(broker, Signal::TERM).await?;
        victim.meanwhile().await?;
        victim.env.start_servers().await?;
    }
    Ok(BROKERS.len() as u64)
}

pub(super) async fn pause(victim: &mut Victim<'_>) -> Result<u64> {
    let broker = victim.one_of(&BROKERS);
    victim.pause(broker).await?;
    Ok(1)
}

pub(super) async fn kill_two(victim: &mut Victim<'_>) -> Result<u64> {
    let spared = victim.rng.random_range(0..BROKERS.len());
    for (index, broker) in BROKERS.iter().enumerate() {
        if index != spared {
            victim.kill(broker).await?;
        }
    }
    sleep(NOBODY).await;
    victim.env.start_servers().await?;
    Ok(1)
}
