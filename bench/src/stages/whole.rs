//! Everything at once: posts in, sequenced, into MySQL and Redis.

use std::{thread::available_parallelism, time::Duration};

use anyhow::{Result, ensure};
use system_tests::{Settings, TestEnv};
use tokio::time::{Instant, sleep};

use super::{Plan, SERVERS};
use crate::{
    backlog::{Backlog, BacklogReader},
    disk,
    load::{paced::PacedLoop, post::Post, traffic::Traffic},
    meter::{FIVE, Meter, services_mib},
    progress::everywhere,
    results::{Bound, Row},
    sample::{Sample, Spread},
};

/// After this time users and caches are warm, and the cost of a message is known.
const WARM_UP: Duration = Duration::from_secs(20);
/// The largest share of all cores for which work is offered: beyond it, queues in front of all of them would only grow.
const OFFERED_SHARE: f64 = 0.85;
/// In the first trial the broker is cold.
const TRIALS: usize = 3;
/// The first trial's share of the rate, which the slowest machine carries.
const FIRST_SHARE: f64 = 0.25;
/// How long to measure what is used while nothing is posted.
const IDLE: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Single posts are few, so shorter runs are enough.
const SINGLES: Duration = Duration::from_secs(60);

/// The settings for much traffic.
const THROUGHPUT: Settings = Settings {
    overrides: &["runtime.profile=throughput"],
    ..SERVERS
};

/// A load on the whole, between the pairs of a real network, and its maximal cost. If the machine cannot carry the rate, it gets what it can carry.
struct Load {
    what: &'static str,
    settings: Settings,
    connections: usize,
    post: Post,
    rate: f64,
    cpu_s_per_10_000: f64,
}

/// Batches.
pub(super) async fn batches(plan: &Plan) -> Result<Vec<Row>> {
    let load = Load {
        what: "everything at once, NDJSON of 500 lines, profile `throughput`",
        settings: THROUGHPUT,
        connections: 16,
        post: Post::Ndjson(500),
        rate: 60_000.0,
        cpu_s_per_10_000: 0.35,
    };
    load.run(plan).await
}

/// Single posts.
pub(super) async fn singles(plan: &Plan) -> Result<Vec<Row>> {
    let load = Load {
        what: "everything at once, single posts over 64 connections, profile `throughput`",
        settings: THROUGHPUT,
        connections: 64,
        post: Post::Single,
        rate: 10_000.0,
        cpu_s_per_10_000: 1.5,
    };
    let plan = Plan {
        whole: plan.whole.min(SINGLES),
        ..*plan
    };
    load.run(&plan).await
}

impl Load {
    async fn run(self, plan: &Plan) -> Result<Vec<Row>> {
        // No gateway: its cost must not be part of figures that are compared with earlier ones.
        let env = TestEnv::start(self.settings).await?;
        env.start_services(&FIVE).await?;
        let traffic = Traffic::real()?;
        let clients = PacedLoop {
            port: env.port("ingest")?,
            connections: self.connections,
            post: self.post,
            rate: self.rate,
        };
        let clients = what_is_carried(&env, clients, &traffic).await?;
        let idle = used_by_nothing(&env).await?;

        let disk_before = Disk::of(&env)?;
        let meter = Meter::start(&env)?;
        let began = Instant::now();
        let (answered, seen) =
            tokio::try_join!(clients.run(&traffic, plan.whole), watch(&env, plan.whole))?;
        let took = began.elapsed().as_secs_f64();
        let rate = answered.accepted as f64 / took;
        // Projections hold some rows for long and write them after the load: the cost of writing them counts, the idle time until then does not.
        everywhere(&env).await?;
        let sample = meter.stop(answered.accepted)?;
        let waited = sample.seconds - took;
        let sample = sample.without(&idle, waited);
        let disk = Disk::of(&env)?.since(&disk_before, answered.accepted);
        ensure!(seen.len() > 1, "there was no time to read backlogs");
        Ok(self.rows(rate, &sample, &seen, &disk))
    }

    fn rows(&self, rate: f64, sample: &Sample, seen: &[Seen], disk: &Disk) -> Vec<Row> {
        let what = self.what;
        let value = |name: String, unit, value, bound| Row::of_one(name, unit, value, bound);
        let samples = std::slice::from_ref(sample);
        let accepted = Row::of_value(
            format!("{what}: accepted"),
            "messages/s",
            Spread::of([rate]),
            Some(Bound::AtLeast(self.rate * 0.99)),
            samples,
        );
        let cpu = sample.cpu_of_one() * 10_000.0;
        let memory = Spread::of(seen.iter().map(|seen| seen.services_mib)).max;
        let backlogs: Vec<&Backlog> = seen.iter().map(|seen| &seen.backlog).collect();
        let (group, growth) = growth(&backlogs);
        vec![
            accepted,
            value(
                format!("{what}: CPU of all processes for 10,000"),
                "s",
                cpu,
                Some(Bound::AtMost(self.cpu_s_per_10_000)),
            ),
            value(
                format!(
                    "{what}: a backlog, that of {group}, grows from the first half to the second by"
                ),
                "s of traffic",
                growth / rate,
                Some(Bound::AtMost(0.5)),
            ),
            value(
                format!("{what}: memory of our five processes together, at most"),
                "MiB",
                memory,
                Some(Bound::AtMost(400.0)),
            ),
            value(
                format!("{what}: Kafka's log"),
                "bytes a message",
                disk.kafka,
                None,
            ),
            value(
                format!("{what}: MariaDB's tables of messages"),
                "bytes a message",
                disk.messages,
                None,
            ),
        ]
    }
}

/// The same clients, at their rate or at what the machine carries. With less to do, batches are smaller and each message costs more, so the offered
/// rate is tried, too.
async fn what_is_carried(
    env: &TestEnv,
    clients: PacedLoop,
    traffic: &Traffic,
) -> Result<PacedLoop> {
    let cores = available_parallelism()?.get() as f64;
    let mut rate = clients.rate * FIRST_SHARE;
    for _ in 0..TRIALS {
        let offered = PacedLoop { rate, ..clients };
        let used = posted(env, offered, traffic).await?;
        // Some of the CPU is used in any case, and not for a message.
        let idle = used_by_nothing(env).await?;
        let busy = idle.cpu_of_one() / idle.seconds;
        let seconds = used.seconds;
        let of_one = used.without(&idle, seconds).cpu_of_one();
        rate = clients.rate.min((OFFERED_SHARE * cores - busy) / of_one);
        ensure!(
            rate > 0.0,
            "{busy:.2} of {cores} cores are busy while nothing is posted: no capacity is left for a load"
        );
    }
    Ok(PacedLoop { rate, ..clients })
}

/// Posts for a while, and waits until all messages are everywhere.
async fn posted(env: &TestEnv, clients: PacedLoop, traffic: &Traffic) -> Result<Sample> {
    let meter = Meter::start(env)?;
    let answered = clients.run(traffic, WARM_UP).await?;
    everywhere(env).await?;
    meter.stop(answered.accepted)
}

/// The resources used while nothing is posted, counted as one message.
async fn used_by_nothing(env: &TestEnv) -> Result<Sample> {
    let meter = Meter::start(env)?;
    sleep(IDLE).await;
    meter.stop(1)
}

/// One reading of an environment under load.
struct Seen {
    backlog: Backlog,
    services_mib: f64,
}

/// Reads memory and backlog at intervals.
async fn watch(env: &TestEnv, length: Duration) -> Result<Vec<Seen>> {
    let end = Instant::now() + length;
    let reader = BacklogReader::at(env)?;
    let mut seen = Vec::new();
    while Instant::now() + POLL_INTERVAL < end {
        sleep(POLL_INTERVAL).await;
        seen.push(Seen {
            backlog: reader.backlog().await?,
            services_mib: services_mib(env)?,
        });
    }
    Ok(seen)
}

/// By how many records the median backlog of the second half exceeds that of the first: for the group where it grows most, or for none if none grows.
fn growth(seen: &[&Backlog]) -> (String, f64) {
    let (first, second) = seen.split_at(seen.len() / 2);
    let middle = |half: &[&Backlog], group: &str| {
        Spread::of(half.iter().filter_map(|all| all.get(group).copied())).median
    };
    let groups = seen.iter().flat_map(|backlog| backlog.keys());
    groups
        .map(|group| (group.clone(), middle(second, group) - middle(first, group)))
        .filter(|(_, growth)| *growth > 0.0)
        .max_by(|one, other| one.1.total_cmp(&other.1))
        .unwrap_or_else(|| ("none".to_owned(), 0.0))
}

/// The disk usage of the stores, bytes.
#[derive(Debug)]
struct Disk {
    kafka: f64,
    messages: f64,
}

impl Disk {
    fn of(env: &TestEnv) -> Result<Self> {
        Ok(Self {
            kafka: disk::bytes(env, "kafka", "chat.", "")? as f64,
            messages: disk::bytes(env, "mariadb", "im_", "chat_msg_")? as f64,
        })
    }

    /// The growth for each of `count` messages.
    fn since(&self, before: &Self, count: u64) -> Self {
        let each = |after: f64, before: f64| (after - before) / count as f64;
        Self {
            kafka: each(self.kafka, before.kafka),
            messages: each(self.messages, before.messages),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_that_of_the_group_that_falls_behind_most() {
        let at = |a: f64, b: f64| Backlog::from([("a".to_owned(), a), ("b".to_owned(), b)]);
        let seen = [at(5.0, 0.0), at(5.0, 10.0), at(5.0, 20.0), at(5.0, 30.0)];
        let (group, growth_of_b) = growth(&seen.iter().collect::<Vec<_>>());
        assert_eq!((group.as_str(), growth_of_b), ("b", 20.0));
        let shrinking = [at(9.0, 9.0), at(5.0, 9.0)];
        assert_eq!(growth(&shrinking.iter().collect::<Vec<_>>()).1, 0.0);
        assert_eq!(growth(&[]).1, 0.0);
    }
}
