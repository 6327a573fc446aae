//! Wall clocks that differ.

use anyhow::Result;
use rand::Rng as _;

use super::{kafka::BROKERS, mariadb, redis, services::both, victim::Victim};
use crate::SERVICES;

const HOUR_S: i64 = 3_600;
const MOST_HOURS: i64 = 8;

/// Beyond the months that are created ahead of time, from most days of a year, and within the window of [`DEDUP_WINDOW_MS`].
const AHEAD_S: i64 = 48 * 24 * HOUR_S;
/// 49 days, the longest: a post that is retried after a clock has jumped ahead is a repeat.
pub(super) const DEDUP_WINDOW_MS: &str = "4233600000";

/// A broker's clock is ahead, and so is the log's from then on in the partitions that it leads. Kafka waits by the wall clock: once the clock is set
/// back, the broker does nothing until that time comes again, or until it is restarted.
pub(super) async fn ahead(victim: &mut Victim<'_>) -> Result<u64> {
    let broker = victim.one_of(&BROKERS);
    victim.env.set_clock(broker, AHEAD_S)?;
    let going_on = victim.given_up().await;
    victim.env.set_clock(broker, 0)?;
    going_on?;
    victim.kill(broker).await?;
    victim.env.start_servers().await?;
    Ok(1)
}

/// Every clock jumps, twice, and then back to the right time. Clocks of brokers and of a Redis Cluster do not jump: work that is due at a time now
/// far off would not be done.
pub(super) async fn jump(victim: &mut Victim<'_>) -> Result<u64> {
    let one_redis = !victim.condition.redis_cluster;
    let redis = redis::SERVERS.into_iter().filter(|_| one_redis);
    let servers = mariadb::SERVERS.into_iter().chain(redis);
    let processes = servers.map(str::to_owned).chain(both(&SERVICES));
    let processes: Vec<String> = processes.collect();
    for _ in 0..2 {
        for name in &processes {
            let hours = victim.rng.random_range(-MOST_HOURS..=MOST_HOURS);
            victim.env.set_clock(name, hours * HOUR_S)?;
        }
        victim.given_up().await?;
    }
    for name in &processes {
        victim.env.set_clock(name, 0)?;
    }
    Ok(2)
}
