//! The stages, each with the raw part that it is measured against.

mod analysts;
mod drain;
mod gateway_cpu;
mod gateway_latency;
mod ingest;
mod latency;
mod load_curve;
mod messages;
mod peers;
mod query;
mod replays;
mod sequencer;
mod trickle;
mod unread;
mod whole;

use std::time::Duration;

use anyhow::Result;
use futures::future::LocalBoxFuture;
use system_tests::{Settings, TestEnv};

use crate::{
    deadline::wait_until,
    load::{fill::fill, traffic::Traffic},
    progress::Progress,
    results::Row,
};

/// Measures something on servers of its own. Slowness is not a failure.
type Run = for<'a> fn(&'a Plan) -> LocalBoxFuture<'a, Result<Vec<Row>>>;

/// The stages: the name on the command line and in the results, and the function that measures.
pub(crate) const STAGES: [(&str, Run); 17] = [
    ("ingest", |plan| Box::pin(ingest::run(plan))),
    ("sequencer", |plan| Box::pin(sequencer::run(plan))),
    ("messages", |plan| Box::pin(messages::run(plan))),
    ("unread", |plan| Box::pin(unread::run(plan))),
    ("query", |plan| Box::pin(query::run(plan))),
    ("audit", |plan| Box::pin(replays::audit(plan))),
    ("rebuild", |plan| Box::pin(replays::rebuild(plan))),
    ("beside-analysts", |plan| Box::pin(analysts::beside(plan))),
    ("whole", |plan| Box::pin(whole::batches(plan))),
    ("whole-singles", |plan| Box::pin(whole::singles(plan))),
    ("latency", |plan| Box::pin(latency::run(plan))),
    ("load-curve", |plan| Box::pin(load_curve::run(plan))),
    ("idle", |plan| Box::pin(trickle::idle(plan))),
    ("trickle", |plan| Box::pin(trickle::run(plan))),
    ("peers", |plan| Box::pin(peers::run(plan))),
    ("gateway-latency", |plan| {
        Box::pin(gateway_latency::run(plan))
    }),
    ("gateway-cpu", |plan| Box::pin(gateway_cpu::run(plan))),
];

/// All services, as shipped.
const EVERYTHING: Settings = Settings {
    as_shipped: true,
    ..Settings::USUAL
};

/// Servers as shipped; the stage starts the services that are measured.
const SERVERS: Settings = Settings {
    without_services: true,
    ..EVERYTHING
};

/// Appends `count` messages, and waits until a running sequencer has put them on `chat.events`.
async fn sequenced(env: &TestEnv, traffic: &Traffic, count: u64) -> Result<()> {
    let progress = Progress::of(env).await?;
    let end = progress.appended().await? + count;
    fill(env, traffic, count)?;
    let appended = async || Ok(progress.appended().await? >= end);
    wait_until("messages on chat.events", appended).await
}

/// The token of a device that has just synced; a device of any user can continue from it.
async fn token_of(env: &TestEnv, uid: i64) -> Result<String> {
    let synced = env.client.api().sync(uid.try_into()?, None, None).await?;
    Ok(synced.next.to_string())
}

/// The lengths and numbers of runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// How often each side of a pair runs.
    pub(crate) rounds: usize,
    /// How long a closed loop runs.
    pub(crate) length: Duration,
    /// How long the load on everything at once goes on.
    pub(crate) whole: Duration,
}
