//! The sequencer alone, against a copier of the same records.

use std::{cell::RefCell, sync::Arc};

use anyhow::Result;
use event_log::{Admin, KafkaConfig, LogReader};
use schemas::{PartitionMap, topics::Topic};
use system_tests::TestEnv;
use tokio::task::spawn_blocking;

use super::{Plan, SERVERS, drain::drained};
use crate::{
    load::{fill::fill, traffic::Traffic},
    meter::Meter,
    pair::Pair,
    progress::Progress,
    raw::copier::Copier,
    results::Row,
    sample::Sample,
    warm::warm_up,
};

const RECORDS: u64 = 1_500_000;

/// A backlog, sequenced or copied.
pub(super) async fn run(plan: &Plan) -> Result<Vec<Row>> {
    let env = TestEnv::start(SERVERS).await?;
    let traffic = Traffic::new();
    let copies = copies(&env).await?;
    // Where the backlog of a round begins. `sequenced` notes it, and `copied`, which comes next, reads from there.
    let offsets = RefCell::default();
    let sequenced = async || {
        offsets.replace(ends_of_inbound(&env).await?);
        sequence(&env, &traffic).await
    };
    let copied = async || copy(&env, offsets.take(), copies.clone()).await;
    warm_up(&env, async || {
        sequenced().await?;
        copied().await.map(drop)
    })
    .await?;
    let pair = Pair::run(plan.rounds, sequenced, copied).await?;
    Ok(vec![Row::of_pair(
        format!("a backlog of {RECORDS} messages"),
        "consume → produce of the same bytes",
        &pair,
        0.8,
    )])
}

async fn sequence(env: &TestEnv, traffic: &Traffic) -> Result<Sample> {
    let progress = Progress::of(env).await?;
    let end = progress.appended().await? + RECORDS;
    fill(env, traffic, RECORDS)?;
    drained(env, "sequencer", end, async || progress.appended().await).await
}

/// Topics for the copies, on the same broker.
async fn copies(env: &TestEnv) -> Result<KafkaConfig> {
    let copies = KafkaConfig {
        prefix: "copied.".to_owned(),
        ..env.events.config().clone()
    };
    Admin::new(&copies)?.apply().await?;
    Ok(copies)
}

async fn ends_of_inbound(env: &TestEnv) -> Result<PartitionMap<i64>> {
    let reader = Arc::new(LogReader::new(env.events.config())?);
    Ok(reader.ends(Topic::Inbound).await?)
}

/// Copies the records. The first one, which [`Copier::start`] copies while it connects, is not counted.
async fn copy(env: &TestEnv, offsets: PartitionMap<i64>, to: KafkaConfig) -> Result<Sample> {
    let from = env.events.config().clone();
    let start = move || Copier::start(&from, &offsets, &to);
    let copier = spawn_blocking(start).await??;
    let (meter, count) = (Meter::start(env)?, RECORDS - 1);
    spawn_blocking(move || copier.copy(count)).await??;
    meter.stop(count)
}
