//! The latency of messages, under load that does not wait for answers.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use message_store::Sink;
use schemas::{DeviceClass, InboundPosition, LogPosition, PartitionMap, UserId};
use system_tests::{Percentiles, TestEnv};
use tokio::{
    select,
    time::{Instant, sleep, sleep_until},
};
use unread_store::KeyNames;

use super::{EVERYTHING, Plan};
use crate::{
    deadline::poll_until,
    load::{closed, connection::Connection, post::post_single, traffic::Traffic},
    progress::{Progress, Projection, everywhere},
    results::{Bound, Row},
    sample::Spread,
};

/// Messages per second.
const RATE: f64 = 1_000.0;
const CONNECTIONS: usize = 64;
const LENGTH: Duration = Duration::from_secs(15);
/// How often stores are asked how far they have come; the figures are no finer than that.
const ASK_REDIS: Duration = Duration::from_millis(5);
const ASK_MYSQL: Duration = Duration::from_millis(50);
/// How many users are taken out of Redis, one after the other.
const ABSENT_USERS: u64 = 50;
/// How often Redis is asked whether a user is there.
const ASK_EVERY: Duration = Duration::from_millis(5);

/// Everything on, at 1,000 messages a second.
pub(super) async fn run(plan: &Plan) -> Result<Vec<Row>> {
    let env = TestEnv::start(EVERYTHING).await?;
    closed::warm_up(&env, &Traffic::real()?).await?;
    env.check_all_partitions().await?;
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        rounds.push(one_round(&env).await?);
    }
    let row = |what, most, i: usize| {
        let what = format!("everything on, 1,000/s: send → {what}, p99");
        let spread = Spread::of(rounds.iter().map(|p99_ms| p99_ms[i]));
        Row::of_value(what, "ms", spread, Some(Bound::AtMost(most)), &[])
    };
    let mut rows = vec![
        row("accepted", 10.0, 0),
        row("in Redis", 50.0, 1),
        row("in MySQL", 500.0, 2),
    ];
    rows.extend(of_absent_users(first_events_of_absent_users(&env).await?));
    Ok(rows)
}

/// A message: when it was due and when it was accepted, and its position.
struct Sent {
    due: Instant,
    accepted: Instant,
    at: InboundPosition,
}

/// How far a store was seen to be, with the times.
type Seen = Vec<(Instant, PartitionMap<LogPosition>)>;

/// The times from when messages are due until they are accepted, in Redis and in MySQL: the p99 of each, milliseconds.
pub(super) async fn one_round(env: &TestEnv) -> Result<[f64; 3]> {
    let (progress, traffic) = (Progress::of(env).await?, Traffic::real()?);
    let (mut redis, mut mysql) = (Seen::new(), Seen::new());
    let messages = Projection::Tables(Sink::Messages);
    let sent = select! {
        sent = send_all(env, &traffic, &progress) => sent?,
        ended = watch(&progress, Projection::Unread, ASK_REDIS, &mut redis) => ended?,
        ended = watch(&progress, messages, ASK_MYSQL, &mut mysql) => ended?,
    };
    let p99 = |reached: &dyn Fn(&Sent) -> Option<Instant>| -> Result<f64> {
        let waited_ms = sent.iter().map(|sent| {
            let reached = reached(sent).context("a message was seen nowhere")?;
            Ok(reached.duration_since(sent.due).as_secs_f64() * 1e3)
        });
        Ok(Percentiles::of(waited_ms.collect::<Result<_>>()?).p99)
    };
    Ok([
        p99(&|sent| Some(sent.accepted))?,
        p99(&|sent| sent.seen_in(&redis))?,
        p99(&|sent| sent.seen_in(&mysql))?,
    ])
}

impl Sent {
    /// When a store was first seen to have the message.
    fn seen_in(&self, seen: &Seen) -> Option<Instant> {
        let InboundPosition { partition, offset } = self.at;
        let has = |reached: &PartitionMap<LogPosition>| {
            let reached = reached.get(partition);
            reached.is_some_and(|reached| reached.watermark.offset >= offset)
        };
        let first = seen.partition_point(|(_, reached)| !has(reached));
        seen.get(first).map(|(when, _)| *when)
    }
}

/// Posts at scheduled times. Waits until Redis and MySQL have all messages, and were asked after that.
async fn send_all(env: &TestEnv, traffic: &Traffic, progress: &Progress) -> Result<Vec<Sent>> {
    let (port, began) = (env.port("ingest")?, Instant::now());
    let clients = (0..CONNECTIONS).map(|i| {
        let client = send_each(port, i, traffic.clone(), began);
        async { tokio::spawn(client).await? }
    });
    let sent = try_join_all(clients).await?;
    env.check_all_partitions().await?;
    let end = progress.appended().await?;
    for projection in [Projection::Unread, Projection::Tables(Sink::Messages)] {
        progress.has_written(projection, end).await?;
    }
    sleep(4 * ASK_MYSQL).await;
    Ok(sent.into_iter().flatten().collect())
}

/// Sends one connection's share. A connection that is late catches up, and its waiting counts.
async fn send_each(port: u16, index: usize, traffic: Traffic, began: Instant) -> Result<Vec<Sent>> {
    let mut connection = Connection::open(port).await?;
    let mut sent = Vec::new();
    for nth in (index..).step_by(CONNECTIONS) {
        let after = Duration::from_secs_f64(nth as f64 / RATE);
        if after >= LENGTH {
            break;
        }
        let due = began + after;
        sleep_until(due).await;
        let at = post_single(&mut connection, &traffic).await?;
        sent.push(Sent {
            due,
            accepted: Instant::now(),
            at,
        });
    }
    Ok(sent)
}

/// Repeatedly asks how far a projection has come.
async fn watch<T>(
    progress: &Progress,
    projection: Projection,
    every: Duration,
    seen: &mut Seen,
) -> Result<T> {
    loop {
        let reached = progress.reached(projection).await?;
        seen.push((Instant::now(), reached));
        sleep(every).await;
    }
}

fn of_absent_users(waited_ms: Vec<f64>) -> [Row; 2] {
    let waited_ms = Spread::of(waited_ms);
    let what = format!("first event of a user whom Redis does not have, {ABSENT_USERS} users");
    let most = Some(Bound::AtMost(2_000.0));
    [
        Row::of_value(what, "ms", waited_ms, None, &[]),
        Row::of_one("the same, the longest", "ms", waited_ms.max, most),
    ]
}

/// The times from a post until the receiver's counts for all earlier senders are back, milliseconds.
async fn first_events_of_absent_users(env: &TestEnv) -> Result<Vec<f64>> {
    everywhere(env).await?;
    let traffic = Traffic::real()?;
    let mut connection = Connection::open(env.port("ingest")?).await?;
    let mut waited_ms = Vec::new();
    for number in 0..ABSENT_USERS {
        let receiver = UserId::try_from(traffic.nth(number).destid)?;
        let shown = take_out(env, receiver).await?;
        let view = pc_view(receiver);
        let posted = Instant::now();
        post_single(&mut connection, &traffic).await?;
        let is_back = async || {
            let counts = env.redis.hgetall(&view).await?;
            Ok(shown.iter().all(|peer| counts.contains_key(peer)))
        };
        poll_until(&format!("{view} is back"), ASK_EVERY, is_back).await?;
        waited_ms.push(posted.elapsed().as_secs_f64() * 1e3);
    }
    Ok(waited_ms)
}

/// Removes all of a user's keys from Redis. Returns the peers whose messages were counted there.
async fn take_out(env: &TestEnv, user: UserId) -> Result<Vec<String>> {
    let names = KeyNames::default();
    let (state, pc) = (names.state(user), pc_view(user));
    let mobile = names.view(DeviceClass::Mobile, user);
    let shown = env.redis.hgetall(&pc).await?;
    let gone = env.redis.number(&["DEL", &state, &pc, &mobile]).await?;
    ensure!(gone == 3, "Redis had {gone} of 3 keys of {user}");
    Ok(shown.into_keys().collect())
}

fn pc_view(user: UserId) -> String {
    KeyNames::default().view(DeviceClass::Pc, user)
}

#[cfg(test)]
mod tests {
    use schemas::{NextOffset, Partition, event::SourceOffset};

    use super::*;

    #[test]
    fn a_message_has_come_when_the_watermark_reaches_it() {
        let (partition, began) = (Partition::try_from(3).unwrap(), Instant::now());
        let at = |ms| began + Duration::from_millis(ms);
        let seen = [(10, 4), (20, 4), (30, 9)].map(|(ms, offset)| {
            let watermark = SourceOffset { epoch: 0, offset };
            let next = NextOffset::START;
            let reached = LogPosition { next, watermark };
            (at(ms), PartitionMap::from([(partition, reached)]))
        });
        let seen = [vec![(began, PartitionMap::new())], seen.to_vec()].concat();
        let of = |offset| {
            let sent = Sent {
                due: began,
                accepted: began,
                at: InboundPosition { partition, offset },
            };
            sent.seen_in(&seen)
        };
        assert_eq!([of(4), of(5), of(10)], [Some(at(10)), Some(at(30)), None]);
    }
}
