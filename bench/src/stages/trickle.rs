//! The cost of little traffic: of none, and of single posts at low rates, each followed to a socket.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::Result;
use hyper::StatusCode;
use serde_json::json;
use system_tests::{Percentiles, TestEnv};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use super::{
    EVERYTHING, Plan,
    gateway_latency::{Arrivals, arrived},
    token_of,
};
use crate::{
    load::{
        commands,
        connection::Connection,
        devices::{Crowd, Device},
    },
    meter::{CLIENT, Meter, switches},
    results::{Bound, Row},
    sample::{Sample, Spread},
    warm::warm_up,
};

/// How long after a start measuring begins: by then all services have started, and Java compiles nothing.
const QUIET: Duration = Duration::from_secs(20);
const RATES: [f64; 3] = [10.0, 100.0, 1_000.0];
const CONNECTIONS: usize = 64;
/// How many receivers there are. Each has a sender of its own, so there are as many conversations.
const RECEIVERS: i64 = 200;
const FIRST_SENDER: i64 = 6_600_000;
const FIRST_RECEIVER: i64 = 6_700_000;

/// The processor time of everything while nothing happens.
pub(super) async fn idle(plan: &Plan) -> Result<Vec<Row>> {
    let env = TestEnv::start(EVERYTHING).await?;
    env.check_all_partitions().await?;
    sleep(QUIET).await;
    let mut samples = Vec::new();
    for _ in 0..plan.rounds {
        let meter = Meter::start(&env)?;
        sleep(plan.length).await;
        // Counts 10,000 items a second, so that the CPU for 10,000 items is the CPU for a second: cores.
        samples.push(meter.stop(10_000 * plan.length.as_secs())?);
    }
    let cores = samples.iter().map(|sample| {
        let of_others = sample.cpu_s.iter().filter(|(name, _)| *name != CLIENT);
        of_others.map(|(_, cpu_s)| cpu_s).sum::<f64>() / sample.seconds
    });
    Ok(vec![Row::of_value(
        "idle, everything on, Kafka and the stores included; of each process in the table of CPU",
        "cores",
        Spread::of(cores),
        Some(Bound::AtMost(0.12)),
        &samples,
    )])
}

/// Single posts at low rates.
pub(super) async fn run(plan: &Plan) -> Result<Vec<Row>> {
    let env = TestEnv::start(EVERYTHING).await?;
    env.check_all_partitions().await?;
    warm_up(&env, async || {
        one_round(&env, plan, 1_000.0).await.map(drop)
    })
    .await?;
    let mut rows = Vec::new();
    for rate in RATES {
        let mut rounds = Vec::new();
        for _ in 0..plan.rounds {
            rounds.push(one_round(&env, plan, rate).await?);
        }
        rows.extend(of_rate(rate, &rounds));
    }
    Ok(rows)
}

/// What one round at a rate has shown.
struct Round {
    arrived: Percentiles,
    sample: Sample,
    /// How often each process gave up a processor, for each message.
    switches: BTreeMap<String, f64>,
}

fn of_rate(rate: f64, rounds: &[Round]) -> Vec<Row> {
    let what = |what: &str| format!("single posts, {rate}/s: {what}");
    let spread = |of: &dyn Fn(&Round) -> f64| Spread::of(rounds.iter().map(of));
    let samples: Vec<Sample> = rounds.iter().map(|round| round.sample.clone()).collect();
    let cpu_s = spread(&|round| round.sample.cpu_of_one() * 10_000.0);
    let mut rows = vec![
        Row::of_value(
            what("due → on a socket, p50"),
            "ms",
            spread(&|round| round.arrived.p50),
            None,
            &[],
        ),
        Row::of_value(
            what("due → on a socket, p99"),
            "ms",
            spread(&|round| round.arrived.p99),
            None,
            &[],
        ),
        Row::of_value(
            what("CPU of all processes for 10,000"),
            "s",
            cpu_s,
            None,
            &samples,
        ),
    ];
    for name in rounds
        .iter()
        .take(1)
        .flat_map(|round| round.switches.keys())
    {
        rows.push(Row::of_value(
            what(&format!("context switches of {name} a message")),
            "",
            spread(&|round| round.switches[name]),
            None,
            &[],
        ));
    }
    rows
}

async fn one_round(env: &TestEnv, plan: &Plan, rate: f64) -> Result<Round> {
    let (port, since) = (env.port("gateway")?, token_of(env, FIRST_SENDER).await?);
    let messages = (rate * plan.length.as_secs_f64()) as usize;
    let receivers = FIRST_RECEIVER..FIRST_RECEIVER + RECEIVERS;
    let receivers = Device::connect_all(port, receivers, &since).await?;
    let ingest = env.port("ingest")?;
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(Connection::open(ingest).await?);
    }
    let before = switches(env)?;
    let meter = Meter::start(env)?;
    let arrivals = Arrivals::new(rate, 1, messages);
    let mut crowd = Crowd::of_connected(receivers, {
        let arrivals = Arc::clone(&arrivals);
        move |frame| arrivals.take(frame, Instant::now())
    });
    let mut posting = JoinSet::new();
    for (index, connection) in connections.into_iter().enumerate() {
        let numbers = (index..messages).step_by(CONNECTIONS);
        posting.spawn(post_all(connection, numbers, Arc::clone(&arrivals)));
    }
    let arrived = crowd.during(arrived(&arrivals, posting)).await?;
    let sample = meter.stop(messages as u64)?;
    let switches = switches(env)?.into_iter().map(|(name, after)| {
        let before = before.get(&name).copied().unwrap_or_default();
        (name, (after - before) as f64 / messages as f64)
    });
    Ok(Round {
        arrived,
        sample,
        switches: switches.collect(),
    })
}

/// Posts messages when they are due, then waits for ever.
async fn post_all(
    mut connection: Connection,
    numbers: impl Iterator<Item = usize>,
    arrivals: Arc<Arrivals>,
) -> Result<()> {
    for number in numbers {
        sleep_until(arrivals.due(number)).await;
        let conversation = number as i64 % RECEIVERS;
        let body = json!({
            "srcid": (FIRST_SENDER + conversation).to_string(),
            "destid": (FIRST_RECEIVER + conversation).to_string(),
            "client_msg_id": format!("{:x}", rand::random::<u128>()),
            "msg": format!("{} {}", arrivals.number(number), commands::TEXT),
        });
        let (path, kind) = ("/v1/messages", "application/json");
        let posted = connection.post(path, kind, body.to_string().into(), StatusCode::ACCEPTED);
        posted.await?;
    }
    std::future::pending().await
}
