//! How long a message takes, under load that does not wait for answers.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use schemas::{DeviceClass, UserId};
use serde_json::Value;
use system_tests::TestEnv;
use tokio::time::Instant;
use unread_store::KeyNames;

use super::{EVERYTHING, Plan};
use crate::{
    deadline::poll_until,
    load::{closed, connection::Connection, post::Post, traffic::Traffic},
    progress::everywhere,
    results::{Bound, Row},
    sample::Spread,
};

const SECONDS: &str = "15";
/// So many users are taken out of Redis, one after the other.
const ABSENT_USERS: u64 = 50;
/// How often Redis is asked whether a user is there.
const ASK_EVERY: Duration = Duration::from_millis(5);

/// Everything on, at 1,000 messages a second.
pub(super) async fn run(plan: &Plan) -> Result<Vec<Row>> {
    let env = TestEnv::start(EVERYTHING).await?;
    closed::warm_up(&env, &Traffic::real()?).await?;
    env.check_all_partitions().await?;
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
        reports.push(env.tidemark(&args).await?.expect(0)?.json()?);
    }
    let accepted = |report: &Value| report["accepted_p99_ms"].as_f64();
    let mut rows = vec![
        row("send → accepted", &reports, 10.0, accepted)?,
        row("send → in Redis", &reports, 50.0, |report| {
            of_stage(report, "Redis")
        })?,
        row("send → in MySQL", &reports, 500.0, |report| {
            of_stage(report, "Messages")
        })?,
    ];
    rows.extend(of_absent_users(first_events_of_absent_users(&env).await?));
    Ok(rows)
}

/// Of one percentile in every report.
fn row(
    what: &str,
    reports: &[Value],
    most: f64,
    p99_ms: impl Fn(&Value) -> Option<f64>,
) -> Result<Row> {
    let values: Option<Vec<f64>> = reports.iter().map(p99_ms).collect();
    let values = values.with_context(|| format!("no {what} in {reports:?}"))?;
    let what = format!("everything on, 1,000/s: {what}, p99");
    let most = Some(Bound::AtMost(most));
    Ok(Row::of_value(what, "ms", Spread::of(values), most, &[]))
}

/// How a report has a stage of the pipeline.
fn of_stage(report: &Value, name: &str) -> Option<f64> {
    let stages = report["latency_stages"].as_array()?;
    stages.iter().find(|one| one["stage"] == name)?["p99_ms"].as_f64()
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

/// From the post until the receiver's counts are there again, those of everybody who wrote before: milliseconds each.
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
        Post::Single.post(&mut connection, &traffic).await?;
        let is_back = async || {
            let counts = env.redis.hgetall(&view).await?;
            Ok(shown.iter().all(|peer| counts.contains_key(peer)))
        };
        poll_until(&format!("{view} is back"), ASK_EVERY, is_back).await?;
        waited_ms.push(posted.elapsed().as_secs_f64() * 1e3);
    }
    Ok(waited_ms)
}

/// Leaves nothing of a user in Redis; gives the peers whose messages were counted there.
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
