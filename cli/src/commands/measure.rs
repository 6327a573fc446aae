//! Measures the running stack with messages of its own, from a client on the same machine.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use schemas::UserId;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    args::MeasureArgs,
    client::Client,
    handles::Handles,
    output::{Table, grouped},
    posting::{self, Accepted},
    stages::{StageReport, Watch, millis, per_second, percentile},
    times,
};

/// Uids of measured messages begin here: nobody else's.
const FIRST_UID: i64 = 8_000_000_000;
const USERS: u64 = 2_000;
const CONNECTIONS: usize = 64;
const BATCH_LINES: usize = 500;
const BATCH_CONNECTIONS: usize = 4;
const SETTLE: Duration = Duration::from_secs(120);

/// What was measured.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    rates: Option<Rates>,
    latency_rate: f64,
    accepted_p50_ms: f64,
    accepted_p99_ms: f64,
    latency_stages: Vec<StageReport>,
}

/// What it can do where each client waits for its answers.
#[derive(Serialize)]
struct Rates {
    single_per_second: f64,
    batch_per_second: f64,
    batch_stages: Vec<StageReport>,
}

pub(super) async fn run(
    handles: &Handles,
    args: &MeasureArgs,
    as_json: bool,
) -> anyhow::Result<()> {
    let client = Arc::new(handles.client()?);
    let messages = Arc::new(Messages::default());
    let period = Duration::from_secs(args.seconds);
    // Users who are not there yet are rebuilt first: the figures are those of users who are.
    warm_up(handles, &client, &messages).await?;
    let rates = if args.latency_only {
        None
    } else {
        Some(rates(handles, &client, &messages, period).await?)
    };
    let latencies = open_loop(handles, &client, &messages, period, args.rate).await?;
    let report = Report {
        rates,
        latency_rate: latencies.rate,
        accepted_p50_ms: percentile(&latencies.accepted_ms, 50),
        accepted_p99_ms: percentile(&latencies.accepted_ms, 99),
        latency_stages: latencies.stages,
    };
    if as_json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print!("{}", table(&report));
    }
    Ok(())
}

/// Makes messages that never were: every run has ids of its own.
struct Messages {
    run: String,
    next: AtomicU64,
}

impl Default for Messages {
    fn default() -> Self {
        let run = times::now().0;
        Self {
            run: format!("measure-{run}"),
            next: AtomicU64::new(0),
        }
    }
}

impl Messages {
    fn next(&self) -> Value {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        let user = |n: u64| UserId::try_from(FIRST_UID + (n % USERS).cast_signed());
        let (from, to) = (n.wrapping_mul(7919), n.wrapping_mul(104_729) + 1);
        json!({
            "srcid": user(from).expect("FIRST_UID and what follows are positive"),
            "destid": user(to).expect("FIRST_UID and what follows are positive"),
            "client_msg_id": format!("{}-{n}", self.run),
            "msg": "a text of about as many bytes as people write to each other, which is not that many; say a hundred",
        })
    }
}

async fn warm_up(handles: &Handles, client: &Client, messages: &Messages) -> anyhow::Result<()> {
    let watch = Watch::begin(handles).await?;
    let lines: Vec<String> = (0..2 * USERS)
        .map(|_| json!({ "message": messages.next() }).to_string())
        .collect();
    let posted = posting::post(client, &lines, BATCH_LINES).await?;
    anyhow::ensure!(
        watch.settled(&posted.accepted, SETTLE).await,
        "the stack does not settle"
    );
    Ok(())
}

async fn rates(
    handles: &Handles,
    client: &Arc<Client>,
    messages: &Arc<Messages>,
    period: Duration,
) -> anyhow::Result<Rates> {
    let single_per_second = closed_loop(client, messages, period).await?;
    let (batch_per_second, batch_stages) = batches(handles, client, messages, period).await?;
    Ok(Rates {
        single_per_second,
        batch_per_second,
        batch_stages,
    })
}

/// 64 connections, each posting one message after the other.
async fn closed_loop(
    client: &Arc<Client>,
    messages: &Arc<Messages>,
    period: Duration,
) -> anyhow::Result<f64> {
    let began = Instant::now();
    let mut workers = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (client, messages) = (Arc::clone(client), Arc::clone(messages));
        workers.spawn(async move {
            let mut accepted = 0;
            while began.elapsed() < period {
                posting::post_single(Arc::clone(&client), messages.next()).await?;
                accepted += 1;
            }
            anyhow::Ok(accepted)
        });
    }
    let mut accepted = 0;
    while let Some(worker) = workers.join_next().await {
        accepted += worker??;
    }
    Ok(per_second(accepted, began.elapsed()))
}

async fn batches(
    handles: &Handles,
    client: &Arc<Client>,
    messages: &Arc<Messages>,
    period: Duration,
) -> anyhow::Result<(f64, Vec<StageReport>)> {
    let watch = Watch::begin(handles).await?;
    let began = Instant::now();
    let mut workers = JoinSet::new();
    for _ in 0..BATCH_CONNECTIONS {
        let (client, messages) = (Arc::clone(client), Arc::clone(messages));
        workers.spawn(async move {
            let mut accepted = Vec::new();
            while began.elapsed() < period {
                let lines: Vec<String> = (0..BATCH_LINES)
                    .map(|_| json!({ "message": messages.next() }).to_string())
                    .collect();
                accepted.extend(posting::post(&client, &lines, BATCH_LINES).await?.accepted);
            }
            anyhow::Ok(accepted)
        });
    }
    let mut accepted = Vec::new();
    while let Some(worker) = workers.join_next().await {
        accepted.extend(worker??);
    }
    let rate = per_second(accepted.len(), began.elapsed());
    anyhow::ensure!(
        watch.settled(&accepted, SETTLE).await,
        "the stack does not settle"
    );
    Ok((rate, watch.reports(&accepted, began)))
}

struct Latencies {
    rate: f64,
    accepted_ms: Vec<f64>,
    stages: Vec<StageReport>,
}

/// Posts at scheduled times, whether or not earlier posts are answered: what waits is measured from its schedule.
async fn open_loop(
    handles: &Handles,
    client: &Arc<Client>,
    messages: &Arc<Messages>,
    period: Duration,
    rate: u32,
) -> anyhow::Result<Latencies> {
    let watch = Watch::begin(handles).await?;
    let began = tokio::time::Instant::now();
    let mut posts = JoinSet::new();
    let count = u64::from(rate) * period.as_secs();
    for i in 0..count {
        let scheduled = began + period.mul_f64(i as f64 / count as f64);
        tokio::time::sleep_until(scheduled).await;
        let post = posting::post_single(Arc::clone(client), messages.next());
        posts.spawn(async move { anyhow::Ok((scheduled.into_std(), post.await?)) });
    }
    let mut accepted_ms = Vec::new();
    let mut scheduled = Vec::new();
    while let Some(post) = posts.join_next().await {
        let (due, accepted) = post??;
        accepted_ms.push(millis(accepted.at.saturating_duration_since(due)));
        // From the schedule on, so that send→readable includes the way in.
        scheduled.push(Accepted {
            at: due,
            ..accepted
        });
    }
    let rate = per_second(accepted_ms.len(), began.elapsed());
    accepted_ms.sort_by(f64::total_cmp);
    anyhow::ensure!(
        watch.settled(&scheduled, SETTLE).await,
        "the stack does not settle"
    );
    let stages = watch.reports(&scheduled, began.into_std());
    Ok(Latencies {
        rate,
        accepted_ms,
        stages,
    })
}

fn table(report: &Report) -> Table {
    let mut table = Table::new(["what", "a second", "p50 ms", "p99 ms"]).right(&[1, 2, 3]);
    let rate = |rate: f64| grouped(rate.round() as u64);
    let ms = |ms: f64| format!("{ms:.1}");
    let none = String::new;
    if let Some(rates) = &report.rates {
        table.row([
            format!("accepted, single POSTs, {CONNECTIONS} connections"),
            rate(rates.single_per_second),
            none(),
            none(),
        ]);
        table.row([
            format!("accepted, NDJSON, {BATCH_LINES} lines a request"),
            rate(rates.batch_per_second),
            none(),
            none(),
        ]);
        for stage in &rates.batch_stages {
            let title = format!("  of those {}", stage.stage.title());
            table.row([title, rate(stage.per_second), none(), none()]);
        }
    }
    table.row([
        "send→accepted, open loop".to_owned(),
        rate(report.latency_rate),
        ms(report.accepted_p50_ms),
        ms(report.accepted_p99_ms),
    ]);
    for stage in &report.latency_stages {
        let title = format!("send→{}", stage.stage.title());
        table.row([
            title,
            rate(stage.per_second),
            ms(stage.p50_ms),
            ms(stage.p99_ms),
        ]);
    }
    table
}
