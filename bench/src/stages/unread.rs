//! projector-unread, with the pairs of a real network, against plain counters in the same Redis.

use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;
use system_tests::TestEnv;
use tokio::time::{Instant, sleep_until};

use super::{EVERYTHING, Plan, drain::drained, sequenced};
use crate::{
    load::{closed::ClosedLoop, paced::PacedLoop, post::Post, traffic::Traffic},
    meter::{CLIENT, Meter},
    pair::Pair,
    progress::{Progress, Projection},
    raw::hincrby,
    results::{Bound, Row},
    sample::{Sample, Spread},
};

const EVENTS: u64 = 1_000_000;
/// All messages of the real network.
const ONCE: u64 = 59_835;
const PROJECTOR: &str = "projector-unread";
const RATE: f64 = 20_000.0;
/// How often plain counters are updated at that rate.
const TICK: Duration = Duration::from_millis(5);

/// Measures in one environment: events as they come, then backlogs.
pub(super) async fn run(plan: &Plan) -> Result<Vec<Row>> {
    let (env, traffic) = loaded().await?;
    env.end("projector-mysql", Signal::TERM).await?;
    let live = live(plan, &env, &traffic).await?;
    env.end(PROJECTOR, Signal::TERM).await?;
    let backlog = backlog(plan, &env, &traffic).await?;
    Ok(vec![backlog, live])
}

/// Drains a backlog.
async fn backlog(plan: &Plan, env: &TestEnv, traffic: &Traffic) -> Result<Row> {
    let port = env.redis.port();
    let pair = Pair::run(
        plan.rounds,
        async || drain(env, traffic).await,
        async || {
            let messages = pairs(traffic, EVENTS);
            let meter = Meter::start(env)?;
            tokio::task::spawn_blocking(move || hincrby::Counter::connect(port)?.count(&messages))
                .await??;
            meter.stop(EVENTS)
        },
    )
    .await?;
    Ok(Row::of_pair(
        format!("projector-unread, a backlog of {EVENTS} real messages, drained"),
        "pipelined HINCRBY ×2",
        &pair,
        1.0,
    ))
}

/// Events as they come: the work is the same on both sides, so its cost is compared.
async fn live(plan: &Plan, env: &TestEnv, traffic: &Traffic) -> Result<Row> {
    let clients = PacedLoop {
        port: env.port("ingest")?,
        connections: 8,
        post: Post::Ndjson(100),
        rate: RATE,
    };
    let (mut ours, mut raw, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let meter = Meter::start(env)?;
        let answered = clients.run(traffic, plan.length).await?;
        caught_up(env).await?;
        let sample = meter.stop(answered.accepted)?;
        let messages = pairs(traffic, (RATE * plan.length.as_secs_f64()) as u64);
        let meter = Meter::start(env)?;
        plain_at_rate(env, &messages).await?;
        let plain = meter.stop(messages.len() as u64)?;
        ratios.push(cost(&plain, CLIENT) / cost(&sample, PROJECTOR));
        ours.push(sample);
        raw.push(plain);
    }
    Ok(Row::of_value(
        format!(
            "projector-unread and Redis at {RATE}/s as they come: CPU of pipelined HINCRBY ×2 over ours"
        ),
        "",
        Spread::of(ratios),
        Some(Bound::AtLeast(0.5)),
        &ours,
    )
    .beside(&raw))
}

/// The CPU that Redis and its writer use for an event, seconds.
fn cost(sample: &Sample, writer: &str) -> f64 {
    let both = [writer, "redis"];
    let spent = both.iter().filter_map(|name| sample.cpu_s.get(*name));
    spent.sum::<f64>() / sample.count as f64
}

/// An environment whose Redis has all users.
async fn loaded() -> Result<(TestEnv, Traffic)> {
    let env = TestEnv::start(EVERYTHING).await?;
    let traffic = Traffic::real()?;
    let posts = ClosedLoop {
        port: env.port("ingest")?,
        connections: 1,
        post: Post::Ndjson(500),
    };
    posts.count(&traffic, ONCE).await?;
    env.check_all_partitions().await?;
    caught_up(&env).await?;
    Ok((env, traffic))
}

async fn drain(env: &TestEnv, traffic: &Traffic) -> Result<Sample> {
    sequenced(env, traffic, EVENTS).await?;
    let progress = Progress::of(env).await?;
    let end = progress.appended().await?;
    let done = async || progress.written(Projection::Unread).await;
    drained(env, PROJECTOR, end, done).await
}

async fn caught_up(env: &TestEnv) -> Result<()> {
    let progress = Progress::of(env).await?;
    let end = progress.appended().await?;
    progress.has_written(Projection::Unread, end).await
}

/// The senders and receivers of the next `count` messages.
fn pairs(traffic: &Traffic, count: u64) -> Vec<(i64, i64)> {
    let messages = (0..count).map(|_| traffic.next_message());
    messages
        .map(|message| (message.srcid, message.destid))
        .collect()
}

/// Counts the messages at the rate.
async fn plain_at_rate(env: &TestEnv, messages: &[(i64, i64)]) -> Result<()> {
    let mut counter = hincrby::Counter::connect(env.redis.port())?;
    let each = (RATE * TICK.as_secs_f64()) as usize;
    let began = Instant::now();
    for (tick, messages) in (0..).zip(messages.chunks(each)) {
        sleep_until(began + TICK * tick).await;
        counter.count(messages)?;
    }
    Ok(())
}
