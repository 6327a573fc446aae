//! Measures the running stack with messages of its own, from a client on the same machine.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use client::{AcceptedLine, Client, ClientError, Event};
use schemas::{ClientMsgId, Recipient, UserId, command::SendMessage};
use serde::Serialize;
use tokio::task::JoinSet;

use crate::{
    args::MeasureArgs,
    context::CommandContext,
    output::{Table, grouped},
    stage_watch::{StageReport, StageWatch, millis, per_second, percentile},
    times,
};

/// The first uid of measured messages; nothing else uses them.
const FIRST_UID: i64 = 8_000_000_000;
const USERS: u64 = 2_000;
const CONNECTIONS: usize = 64;
const BATCH_LINES: usize = 500;
const BATCH_CONNECTIONS: usize = 4;
const TEXT: &str = "a text of about as many bytes as people write to each other, which is not that many; say a hundred";
const SETTLE: Duration = Duration::from_secs(120);

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    rates: Option<Rates>,
    latency_rate: f64,
    accepted_p50_ms: f64,
    accepted_p99_ms: f64,
    latency_stages: Vec<StageReport>,
}

/// The rates if each client waits for its responses.
#[derive(Serialize)]
struct Rates {
    single_per_second: f64,
    batch_per_second: f64,
    batch_stages: Vec<StageReport>,
}

pub(super) async fn run(
    context: &CommandContext,
    args: &MeasureArgs,
    as_json: bool,
) -> anyhow::Result<()> {
    let client = context.client()?;
    let messages = Arc::new(Messages::default());
    let period = Duration::from_secs(args.seconds);
    // Redis rebuilds absent users first: the figures are to be those of present users.
    warm_up(context, &client, &messages).await?;
    let rates = if args.latency_only {
        None
    } else {
        Some(rates(context, &client, &messages, period).await?)
    };
    let latencies = open_loop(context, &client, &messages, period, args.rate).await?;
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

/// Generates new messages: every run has its own ids.
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
    fn next(&self) -> SendMessage {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        let user = |n: u64| {
            UserId::try_from(FIRST_UID + (n % USERS).cast_signed())
                .expect("FIRST_UID and the following numbers are positive")
        };
        SendMessage {
            by_user: false,
            srcid: user(n.wrapping_mul(7919)),
            to: Recipient::User(user(n.wrapping_mul(104_729) + 1)),
            client_msg_id: ClientMsgId::try_from(format!("{}-{n}", self.run))
                .expect("it has fewer than 64 bytes"),
            msg: TEXT.to_owned(),
        }
    }

    fn lines(&self, count: usize) -> Vec<String> {
        (0..count)
            .map(|_| Event::Message(self.next()).to_line())
            .collect()
    }
}

/// Posts one message; records when it was accepted.
async fn post_one(client: &Client, message: &SendMessage) -> Result<AcceptedLine, ClientError> {
    let position = client.send(message).await?.position;
    Ok(AcceptedLine {
        line: 1,
        position,
        at: Instant::now(),
    })
}

async fn warm_up(
    context: &CommandContext,
    client: &Client,
    messages: &Messages,
) -> anyhow::Result<()> {
    let watch = StageWatch::begin(context).await?;
    let lines = messages.lines(2 * USERS as usize);
    let posted = client.post_batch(&lines, BATCH_LINES, |_| ()).await?;
    anyhow::ensure!(
        watch.settled(&posted.accepted, SETTLE).await,
        "the stack does not settle"
    );
    Ok(())
}

async fn rates(
    context: &CommandContext,
    client: &Client,
    messages: &Arc<Messages>,
    period: Duration,
) -> anyhow::Result<Rates> {
    let single_per_second = closed_loop(client, messages, period).await?;
    let (batch_per_second, batch_stages) = batches(context, client, messages, period).await?;
    Ok(Rates {
        single_per_second,
        batch_per_second,
        batch_stages,
    })
}

/// Each of 64 connections posts one message after the other.
async fn closed_loop(
    client: &Client,
    messages: &Arc<Messages>,
    period: Duration,
) -> anyhow::Result<f64> {
    let started = Instant::now();
    let mut workers = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (client, messages) = (client.clone(), Arc::clone(messages));
        workers.spawn(async move {
            let mut accepted = 0;
            while started.elapsed() < period {
                post_one(&client, &messages.next()).await?;
                accepted += 1;
            }
            anyhow::Ok(accepted)
        });
    }
    let mut accepted = 0;
    while let Some(worker) = workers.join_next().await {
        accepted += worker??;
    }
    Ok(per_second(accepted, started.elapsed()))
}

async fn batches(
    context: &CommandContext,
    client: &Client,
    messages: &Arc<Messages>,
    period: Duration,
) -> anyhow::Result<(f64, Vec<StageReport>)> {
    let watch = StageWatch::begin(context).await?;
    let started = Instant::now();
    let mut workers = JoinSet::new();
    for _ in 0..BATCH_CONNECTIONS {
        let (client, messages) = (client.clone(), Arc::clone(messages));
        workers.spawn(async move {
            let mut accepted = Vec::new();
            while started.elapsed() < period {
                let lines = messages.lines(BATCH_LINES);
                let batch = client.post_batch(&lines, BATCH_LINES, |_| ()).await?;
                accepted.extend(batch.accepted);
            }
            anyhow::Ok(accepted)
        });
    }
    let mut accepted = Vec::new();
    while let Some(worker) = workers.join_next().await {
        accepted.extend(worker??);
    }
    let rate = per_second(accepted.len(), started.elapsed());
    anyhow::ensure!(
        watch.settled(&accepted, SETTLE).await,
        "the stack does not settle"
    );
    Ok((rate, watch.reports(&accepted, started)))
}

struct Latencies {
    rate: f64,
    accepted_ms: Vec<f64>,
    stages: Vec<StageReport>,
}

/// Posts at scheduled times, whether or not earlier posts are answered. Latencies are measured from the scheduled time.
async fn open_loop(
    context: &CommandContext,
    client: &Client,
    messages: &Arc<Messages>,
    period: Duration,
    rate: u32,
) -> anyhow::Result<Latencies> {
    let watch = StageWatch::begin(context).await?;
    let started = tokio::time::Instant::now();
    let mut posts = JoinSet::new();
    let count = u64::from(rate) * period.as_secs();
    for i in 0..count {
        let scheduled = started + period.mul_f64(i as f64 / count as f64);
        tokio::time::sleep_until(scheduled).await;
        let (client, message) = (client.clone(), messages.next());
        posts.spawn(async move {
            let accepted = post_one(&client, &message).await?;
            anyhow::Ok((scheduled.into_std(), accepted))
        });
    }
    let mut accepted_ms = Vec::new();
    let mut scheduled = Vec::new();
    while let Some(post) = posts.join_next().await {
        let (due, accepted) = post??;
        accepted_ms.push(millis(accepted.at.saturating_duration_since(due)));
        // Measured from the scheduled time, so that send→readable includes ingest.
        scheduled.push(AcceptedLine {
            at: due,
            ..accepted
        });
    }
    let rate = per_second(accepted_ms.len(), started.elapsed());
    accepted_ms.sort_by(f64::total_cmp);
    anyhow::ensure!(
        watch.settled(&scheduled, SETTLE).await,
        "the stack does not settle"
    );
    let stages = watch.reports(&scheduled, started.into_std());
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
