//! How long a message takes, under load that does not wait for answers.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use system_tests::World;
use tokio::time::{Instant, sleep};

use super::{EVERYTHING, Plan};
use crate::{
    load::{
        closed,
        connection::Connection,
        post::Post,
        traffic::{Made, Traffic},
    },
    results::{Bound, Row},
    sample::Spread,
};

const SECONDS: &str = "15";
/// So many users are taken out of Redis, one after the other.
const ABSENT_USERS: u64 = 50;
/// How often Redis is asked whether a user is there.
const ASK_EVERY: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(60);

/// Everything on, at 1,000 messages a second.
pub(super) async fn run(stage: &'static str, plan: &Plan) -> Result<Vec<Row>> {
    let world = World::start(EVERYTHING).await?;
    closed::warm_up(&world, &Traffic::real()?).await?;
    world.all_partitions_pass().await?;
    let args = [
        "--json",
        "measure",
        "--latency-only",
        "--rate",
        "1000",
        "--seconds",
        SECONDS,
    ];
    let mut reports = Vec::new();
    for _ in 0..plan.rounds {
        reports.push(world.tidemark(&args).await?.expect(0)?.json()?);
    }
    let row = |what: &str, most: f64, p99: &dyn Fn(&Value) -> Option<f64>| {
        let values: Option<Vec<f64>> = reports.iter().map(p99).collect();
        let values = values.with_context(|| format!("no {what} in {reports:?}"))?;
        let what = format!("everything on, 1,000/s: {what}, p99");
        let most = Some(Bound::AtMost(most));
        anyhow::Ok(Row::of_value(
            stage,
            what,
            "ms",
            Spread::of(values),
            most,
            &[],
        ))
    };
    let absent_ms = Spread::of(first_events_of_absent_users(&world).await?);
    let of_stage = |report: &Value, name: &str| {
        let stages = report["latency_stages"].as_array()?;
        stages.iter().find(|one| one["stage"] == name)?["p99_ms"].as_f64()
    };
    Ok(vec![
        row("send → accepted", 10.0, &|report| {
            report["accepted_p99_ms"].as_f64()
        })?,
        row("send → in Redis", 50.0, &|report| {
            of_stage(report, "Redis")
        })?,
        row("send → in MySQL", 500.0, &|report| {
            of_stage(report, "Messages")
        })?,
        Row::of_value(
            stage,
            format!("first event of a user whom Redis does not have, {ABSENT_USERS} users"),
            "ms",
            absent_ms,
            None,
            &[],
        ),
        Row::of_one(
            stage,
            "the same, the longest",
            "ms",
            absent_ms.max,
            Some(Bound::AtMost(2_000.0)),
        ),
    ])
}

/// From the post until the receiver's counts are there, milliseconds each.
async fn first_events_of_absent_users(world: &World) -> Result<Vec<f64>> {
    let traffic = Traffic::real()?;
    let mut connection = Connection::open(world.port("ingest")?).await?;
    let mut waited_ms = Vec::new();
    for number in 0..ABSENT_USERS {
        let Made { srcid, destid, .. } = traffic.nth(number);
        let key = format!("pc-{destid}");
        world.redis.number(&["DEL", &key]).await?;
        let posted = Instant::now();
        Post::Single.post(&mut connection, &traffic).await?;
        while !world
            .redis
            .hgetall(&key)
            .await?
            .contains_key(&srcid.to_string())
        {
            ensure!(posted.elapsed() < PATIENCE, "{key} does not come back");
            sleep(ASK_EVERY).await;
        }
        waited_ms.push(posted.elapsed().as_secs_f64() * 1e3);
    }
    Ok(waited_ms)
}
