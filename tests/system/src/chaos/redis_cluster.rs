//! Faults of a Redis Cluster: three masters, each with a replica.

use anyhow::Result;
use rand::Rng as _;
use rustix::process::Signal;

use super::victim::Victim;
use crate::{Redis, until};

/// A master and its replica are three apart, whichever of the two is the master.
const NODES: [&str; 6] = [
    "redis", "redis-2", "redis-3", "redis-4", "redis-5", "redis-6",
];
const PAIRS: usize = NODES.len() / 2;

/// One of the six servers.
#[derive(Clone, Copy)]
struct Node {
    name: &'static str,
    server: Redis,
}

/// Draws one of three masters, with its replica.
async fn draw(victim: &mut Victim<'_>) -> Result<(Node, Node)> {
    let pair = victim.rng.random_range(0..PAIRS);
    let [first, second] = [pair, pair + PAIRS].map(|index| Node {
        name: NODES[index],
        server: victim.env.redis_node(index as u16),
    });
    let info = first.server.replication().await?;
    Ok(match info.contains("role:master") {
        true => (first, second),
        false => (second, first),
    })
}

/// Waits until one of the two follows the other.
async fn are_a_pair(one: Node, other: Node) -> Result<()> {
    let what = format!("replication between {} and {}", one.name, other.name);
    until(&what, async || {
        let mut seen = Vec::new();
        for node in [one, other] {
            let info = node.server.replication().await;
            seen.push(info.unwrap_or_else(|error| format!("{error:#}")));
        }
        let has = |wanted: &str| seen.iter().any(|info| info.contains(wanted));
        match has("role:master") && has("master_link_status:up") {
            true => Ok(()),
            false => Err(seen.concat()),
        }
    })
    .await
}

/// Starts the killed ones of the two servers, after a while.
async fn start_again(victim: &mut Victim<'_>, master: Node, replica: Node) -> Result<()> {
    victim.meanwhile().await?;
    victim.env.start_servers().await?;
    are_a_pair(master, replica).await
}

/// Until the two are back, no server has their slots.
pub(super) async fn kill_pair(victim: &mut Victim<'_>) -> Result<u64> {
    let (master, replica) = draw(victim).await?;
    victim.kill(replica.name).await?;
    victim.kill(master.name).await?;
    start_again(victim, master, replica).await?;
    Ok(1)
}

pub(super) async fn flush(victim: &mut Victim<'_>) -> Result<u64> {
    let (master, _) = draw(victim).await?;
    master.server.flush_all().await?;
    Ok(1)
}

/// The replica takes over without the last writes of its master.
pub(super) async fn fail_over(victim: &mut Victim<'_>) -> Result<u64> {
    let (master, replica) = draw(victim).await?;
    replica.server.stop_replication().await?;
    victim.meanwhile().await?;
    victim.kill(master.name).await?;
    replica.server.until_replication("role:master").await?;
    replica.server.allow_replication().await?;
    start_again(victim, master, replica).await?;
    Ok(1)
}

/// Until the paused master hears of the new one, it takes writes that will be lost.
pub(super) async fn pause_master(victim: &mut Victim<'_>) -> Result<u64> {
    let (master, replica) = draw(victim).await?;
    victim.env.signal(master.name, Signal::STOP)?;
    let taken_over = replica.server.until_replication("role:master").await;
    let going_on = victim.meanwhile().await;
    victim.env.signal(master.name, Signal::CONT)?;
    taken_over.and(going_on)?;
    master.server.until_replication("role:slave").await?;
    are_a_pair(master, replica).await?;
    Ok(1)
}
