//! What analysts run over the log: exports, replays, decisions again.

use std::{process::Stdio, time::Duration};

use anyhow::{Context as _, Result, ensure};
use system_tests::{TestEnv, program};
use tempfile::TempDir;
use tokio::{process::Command, select, time::sleep};

use super::{
    EVERYTHING, Plan, SERVERS,
    drain::drained,
    latency,
    replays::{consumed, filled},
    sequenced,
};
use crate::{
    load::{closed, fill::fill, traffic::Traffic},
    meter::{Meter, peak_of},
    pair::Pair,
    progress::Progress,
    results::{Bound, Row},
    sample::Spread,
};

const MESSAGES: u64 = 500_000;
/// How often a process is asked for the most memory that it has held.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Messages as Parquet, and projections as of the end of the log.
pub(super) async fn export(plan: &Plan) -> Result<Vec<Row>> {
    let env = filled(&Traffic::real()?, MESSAGES).await?;
    let exported = Pair::run(
        plan.rounds,
        async || {
            let lake = TempDir::new()?;
            let lake = lake.path().to_str().context("a path that is no text")?;
            let meter = Meter::start(&env)?;
            let export = ["export", "messages", "--to-dir", lake];
            env.tidemark(&export).await?.expect(0)?;
            meter.stop(MESSAGES)
        },
        async || consumed(&env, r"chat\.events", MESSAGES).await,
    )
    .await?;
    let replayed = Pair::run(
        plan.rounds,
        async || {
            let meter = Meter::start(&env)?;
            let replay = ["replay", "--as-of", "now", "--into", "bench"];
            env.tidemark(&replay).await?.expect(0)?;
            let sample = meter.stop(MESSAGES)?;
            drop_scratch(&env).await?;
            Ok(sample)
        },
        async || {
            let meter = Meter::start(&env)?;
            for sink in ["messages", "reads", "contacts"] {
                env.tidemark(&["rebuild", sink]).await?.expect(0)?;
            }
            meter.stop(MESSAGES)
        },
    )
    .await?;
    Ok(vec![
        Row::of_one(
            format!("export of {MESSAGES} messages: most memory"),
            "MiB",
            peak_mib_of_export(&env).await?,
            Some(Bound::AtMost(300.0)),
        ),
        Row::of_pair(
            format!("export of {MESSAGES} messages"),
            "Kafka's ConsumerPerformance of the same topic",
            &exported,
            0.3,
        ),
        Row::of_pair(
            format!("replay as of the end of {MESSAGES} messages"),
            "rebuild of messages, reads and contacts, compared and switched",
            &replayed,
            0.9,
        ),
    ])
}

/// The most memory that an export of all messages holds.
async fn peak_mib_of_export(env: &TestEnv) -> Result<f64> {
    let lake = TempDir::new()?;
    let mut export = Command::new(program()?)
        .args(env.config_args())
        .args(["export", "messages", "--to-dir"])
        .arg(lake.path())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let pid = export.id().context("it was not waited for")?;
    let mut peak = 0.0_f64;
    loop {
        peak = peak.max(peak_of(pid).unwrap_or_default());
        if let Some(ended) = export.try_wait()? {
            ensure!(ended.success(), "the export ended with {ended}");
            return Ok(peak);
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Delivery beside what analysts run, at 1,000 messages a second.
pub(super) async fn beside(plan: &Plan) -> Result<Vec<Row>> {
    let env = TestEnv::start(EVERYTHING).await?;
    sequenced(&env, &Traffic::real()?, MESSAGES).await?;
    env.check_all_partitions().await?;
    closed::warm_up(&env, &Traffic::real()?).await?;
    env.check_all_partitions().await?;
    let (mut undisturbed, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        undisturbed.push(latency::one_round(&env).await?);
        beside.push(select! {
            round = latency::one_round(&env) => round?,
            Err(error) = analyse(&env) => return Err(error),
        });
        drop_scratch(&env).await?;
    }
    let ratio = |place: usize| {
        let each = beside.iter().zip(&undisturbed);
        Spread::of(each.map(|(beside, alone)| beside[place] / alone[place]))
    };
    let row = |what, place| {
        let what = format!("1,000/s, send → {what}, p99 beside exports and replays ÷ undisturbed");
        let most = Some(Bound::AtMost(1.5));
        Row::of_value(what, "", ratio(place), most, &[])
    };
    Ok(vec![
        row("accepted", 0),
        row("in Redis", 1),
        row("in MySQL", 2),
    ])
}

/// Exports and replays, again and again; ends with an error only.
async fn analyse(env: &TestEnv) -> Result<()> {
    loop {
        let lake = TempDir::new()?;
        let lake = lake.path().to_str().context("a path that is no text")?;
        env.tidemark(&["export", "messages", "--to-dir", lake])
            .await?
            .expect(0)?;
        env.tidemark(&["replay", "--as-of", "now", "--into", "bench"])
            .await?
            .expect(0)?;
        drop_scratch(env).await?;
    }
}

/// There may be none: an analyst who is stopped may just have dropped it.
async fn drop_scratch(env: &TestEnv) -> Result<()> {
    env.tidemark(&["scratch", "drop", "bench"]).await.map(drop)
}

/// The decisions about everything that was sequenced so far, against the sequencer with a backlog.
pub(super) async fn decisions(plan: &Plan) -> Result<Vec<Row>> {
    let env = TestEnv::start(SERVERS).await?;
    let traffic = Traffic::new();
    let progress = Progress::of(&env).await?;
    let sequence = async || {
        let end = progress.appended().await? + MESSAGES;
        fill(&env, &traffic, MESSAGES)?;
        drained(&env, "sequencer", end, async || progress.appended().await).await
    };
    // There has to be something to decide about.
    sequence().await?;
    let pair = Pair::run(
        plan.rounds,
        async || {
            let records = progress.appended().await?;
            let meter = Meter::start(&env)?;
            env.tidemark(&["replay", "decisions"]).await?.expect(0)?;
            meter.stop(records)
        },
        sequence,
    )
    .await?;
    Ok(vec![Row::of_pair(
        "replay decisions, records".to_owned(),
        format!("the sequencer with a backlog of {MESSAGES}").as_str(),
        &pair,
        0.8,
    )])
}
