//! The sequencer alone, against a copier of the same records.

use std::sync::Arc;

use anyhow::{Result, ensure};
use event_log::{Admin, KafkaConfig, LogReader};
use rustix::process::Signal;
use schemas::topics::Topic;
use system_tests::World;
use tokio::time::sleep;

use super::{LOOK_EVERY, Plan, SERVERS, events};
use crate::{
    load::messages::Messages,
    meter::Meter,
    pair::Pair,
    raw::{copier, producer::fill},
    results::Row,
    sample::Sample,
};

const RECORDS: u64 = 2_000_000;

/// A backlog, sequenced or copied.
pub(super) async fn run(stage: &'static str, plan: &Plan) -> Result<Vec<Row>> {
    let world = World::start(SERVERS).await?;
    let messages = Messages::new();
    let pair = Pair::run(
        plan.rounds,
        async || sequence(&world, &messages).await,
        async || copy(&world, &messages).await,
    )
    .await?;
    Ok(vec![Row::of_pair(
        stage,
        format!("a backlog of {RECORDS} messages"),
        "consume → produce of the same bytes",
        &pair,
        0.8,
    )])
}

/// What it sequences while it starts is not counted.
async fn sequence(world: &World, messages: &Messages) -> Result<Sample> {
    let end = events(world).await? + RECORDS;
    fill(world, messages, RECORDS)?;
    world.start_services(&["sequencer"]).await?;
    let (from, meter) = (events(world).await?, Meter::start(world)?);
    while events(world).await? < end {
        sleep(LOOK_EVERY).await;
    }
    let count = end - from;
    let sample = meter.stop(count)?;
    ensure!(
        count > RECORDS / 2,
        "only {count} were left after its start"
    );
    world.end("sequencer", Signal::TERM).await?;
    Ok(sample)
}

/// To topics of its own on the same broker.
async fn copy(world: &World, messages: &Messages) -> Result<Sample> {
    let from = world.events.config().clone();
    let to = KafkaConfig {
        prefix: "copied.".to_owned(),
        ..from.clone()
    };
    Admin::new(&to)?.apply().await?;
    let ends = Arc::new(LogReader::new(&from)?)
        .ends(Topic::Inbound)
        .await?;
    fill(world, messages, RECORDS)?;
    let meter = Meter::start(world)?;
    let copying = move || copier::copy(&from, &ends, &to, RECORDS);
    tokio::task::spawn_blocking(copying).await??;
    meter.stop(RECORDS)
}
