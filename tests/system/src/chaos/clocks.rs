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

/// A broker's clock is ahead, and so is the log's from then on in the partitions that it leads.
pub(super) async fn ahead(victim: &mut Victim<'_>) -> Result<u64> {
    let broker = victim.one_of(&BROKERS);
    victim.env.set_clock(broker, AHEAD_S)?;
    let going_on = victim.given_up().await;
    victim.env.set_clock(broker, 0)?;
    going_on?;
    Ok(1)
}

/// Every clock jumps somewhere else, twice, and then back to the right time. Those of a Redis Cluster do not: an election that is
/// due at a time which has become far off is never held.
pub(super) async fn jump(victim: &mut Victim<'_>) -> Result<u64> {
    let servers = BROKERS.into_iter().chain(mariadb::SERVERS);
    let one_redis = !victim.condition.redis_cluster;
    let redis = redis::SERVERS.into_iter().filter(|_| one_redis);
    let servers = servers.chain(redis).map(str::to_owned);
    let processes: Vec<String> = servers.chain(both(&SERVICES)).collect();
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
