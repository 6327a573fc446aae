//! Faults of the one Redis that is the primary; the other one is its replica.

use anyhow::Result;
use rustix::process::Signal;

use super::victim::{Condition, Victim};
use crate::TestEnv;

pub(super) const SERVERS: [&str; 2] = ["redis", "redis-2"];

/// Makes the other Redis a replica of the primary.
pub(super) async fn replicate(env: &TestEnv, condition: &Condition) -> Result<()> {
    let (first, second) = (condition.redis, 1 - condition.redis);
    let primary = env.redis_node(first);
    primary.replicate_nobody().await?;
    env.redis_node(second).replicate(primary).await
}

pub(super) async fn kill(victim: &mut Victim<'_>) -> Result<u64> {
    victim.kill(in_charge(victim)).await?;
    victim.meanwhile().await?;
    victim.env.start_servers().await?;
    replicate(victim.env, victim.condition).await?;
    Ok(1)
}

pub(super) async fn flush(victim: &mut Victim<'_>) -> Result<u64> {
    let primary = victim.env.redis_node(victim.condition.redis);
    primary.flush_all().await?;
    Ok(1)
}

/// The replica is stopped while the primary continues, so that the replica lags.
pub(super) async fn fail_over(victim: &mut Victim<'_>) -> Result<u64> {
    let (old, new) = (victim.condition.redis, 1 - victim.condition.redis);
    let replica = SERVERS[usize::from(new)];
    victim.env.signal(replica, Signal::STOP)?;
    victim.meanwhile().await?;
    victim.kill(SERVERS[usize::from(old)]).await?;
    victim.env.signal(replica, Signal::CONT)?;
    let promoted = victim.env.redis_node(new);
    promoted.replicate_nobody().await?;
    victim.condition.redis = new;
    victim.env.network()?.redis.move_to(promoted.port());
    victim.meanwhile().await?;
    victim.env.start_servers().await?;
    replicate(victim.env, victim.condition).await?;
    Ok(1)
}

fn in_charge(victim: &Victim<'_>) -> &'static str {
    SERVERS[usize::from(victim.condition.redis)]
}
