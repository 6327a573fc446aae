//! What analysts run over the log: exports, replays, decisions again.

use anyhow::{Context as _, Result};
use system_tests::TestEnv;
use tempfile::TempDir;

use super::{
    Plan, SERVERS,
    drain::drained,
    replays::{consumed, filled},
};
use crate::{
    load::{fill::fill, traffic::Traffic},
    meter::Meter,
    pair::Pair,
    progress::Progress,
    results::Row,
};

const MESSAGES: u64 = 500_000;

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
            env.tidemark(&["scratch", "drop", "bench"])
                .await?
                .expect(0)?;
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
