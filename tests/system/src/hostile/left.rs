//! The remains of an attack: rows, keys and bytes, which docs/SECURITY.md limits for each way.

use std::{fmt, time::Duration};

use anyhow::{Context as _, Result};
use schemas::{Partition, topics::Topic};
use tokio::time::{Instant, sleep};

use crate::{SERVICES, TIMEOUT, TestEnv, service::resident_kib};

/// Counts the rows of all tables.
const COUNT_ROWS: &str = r"SET SESSION group_concat_max_len = 1 << 24;
    SELECT GROUP_CONCAT('SELECT COUNT(*) AS n FROM ', TABLE_SCHEMA, '.', TABLE_NAME SEPARATOR ' UNION ALL ')
    INTO @counts FROM information_schema.TABLES WHERE TABLE_SCHEMA LIKE 'im\_%';
    EXECUTE IMMEDIATE CONCAT('SELECT SUM(n) FROM (', @counts, ') AS counts')";
/// Everything is written once no more rows than this are added in a second.
const SETTLED_ROWS: u64 = 100;

/// The amount of what stays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    /// The rows of all tables.
    pub(super) rows: u64,
    /// The keys of Redis.
    pub(super) keys: u64,
    /// The memory of Redis's keys, KiB.
    pub(super) redis_kib: u64,
    /// The size of commands, events and dead letters, KiB.
    pub(super) log_kib: u64,
    /// The state of all services: their resident memory, MiB.
    pub(super) resident_mib: u64,
}

impl Left {
    pub(super) const NOTHING: Self = Self {
        rows: 0,
        keys: 0,
        redis_kib: 0,
        log_kib: 0,
        resident_mib: 0,
    };

    /// The remains of the measuring account in `seconds`, and what servers and services take for themselves.
    pub(super) fn anyway(seconds: u64) -> Self {
        Self {
            rows: 20 + 25 * seconds,
            keys: 20,
            redis_kib: 1_024,
            log_kib: 20 * seconds,
            resident_mib: 64,
        }
    }

    /// The amount once the projections have written everything on the log.
    pub(super) async fn settled(env: &TestEnv) -> Result<Self> {
        let deadline = Instant::now() + TIMEOUT;
        let mut before = Self::now(env).await?;
        loop {
            sleep(Duration::from_secs(1)).await;
            let now = Self::now(env).await?;
            if now.rows.abs_diff(before.rows) <= SETTLED_ROWS || Instant::now() >= deadline {
                return Ok(now);
            }
            before = now;
        }
    }

    async fn now(env: &TestEnv) -> Result<Self> {
        let rows = env.query_sql("mariadb", COUNT_ROWS).await?;
        let memory = env.redis.command(&["INFO", "memory"]).await?.concat();
        let mut lines = memory.lines();
        let dataset = lines.find_map(|line| line.strip_prefix("used_memory_dataset:"));
        let dataset: u64 = dataset.context("Redis does not say what it has")?.parse()?;
        let mut log_bytes = 0;
        for topic in [Topic::Inbound, Topic::Events, Topic::DeadLetters] {
            for partition in Partition::all() {
                log_bytes += env.partition_files(topic, partition).bytes()?;
            }
        }
        let mut kib = 0;
        for pid in SERVICES.iter().filter_map(|service| env.pid(service)) {
            kib += resident_kib(pid)?;
        }
        Ok(Self {
            rows: rows.trim().parse()?,
            keys: env.redis.number(&["DBSIZE"]).await?.unsigned_abs(),
            redis_kib: dataset >> 10,
            log_kib: log_bytes >> 10,
            resident_mib: kib >> 10,
        })
    }

    /// Combines each value with that of `other`.
    pub(super) fn with(self, other: Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            rows: of(self.rows, other.rows),
            keys: of(self.keys, other.keys),
            redis_kib: of(self.redis_kib, other.redis_kib),
            log_kib: of(self.log_kib, other.log_kib),
            resident_mib: of(self.resident_mib, other.resident_mib),
        }
    }

    /// The first value that exceeds its limit.
    pub(super) fn above(self, most: Self) -> Option<String> {
        let all = self.parts().into_iter().zip(most.parts());
        let mut above = all.filter(|((_, left), (_, most))| left > most);
        above.next().map(|((what, left), (_, most))| {
            format!("{left} {what} are left behind, and {most} may be")
        })
    }

    fn parts(self) -> [(&'static str, u64); 5] {
        [
            ("rows", self.rows),
            ("keys", self.keys),
            ("KiB in Redis", self.redis_kib),
            ("KiB on the log", self.log_kib),
            ("MiB of memory", self.resident_mib),
        ]
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts().map(|(what, left)| format!("{left} {what}"));
        f.write_str(&parts.join(", "))
    }
}
