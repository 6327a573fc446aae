//! Wall clocks that differ by hours.

use anyhow::Result;
use rand::Rng as _;

use super::{kafka::BROKERS, mariadb, redis, services::both, victim::Victim};
use crate::SERVICES;

const HOUR_S: i64 = 3_600;
const MOST_HOURS: i64 = 8;

/// Every clock jumps somewhere else, twice, and then back to the right time.
pub(super) async fn jump(victim: &mut Victim<'_>) -> Result<u64> {
    let servers = BROKERS.into_iter().chain(mariadb::SERVERS);
    let servers = servers.chain(redis::NODES).map(str::to_owned);
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
