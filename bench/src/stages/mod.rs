//! The stages, each with the raw part that it is measured against.

mod drain;
mod engines;
mod gateway_cpu;
mod gateway_latency;
mod gateway_sockets;
mod group_pages;
mod groups;
mod idle_conversations;
mod ingest;
mod instances;
mod large_account;
mod latency;
mod load_curve;
mod memory;
mod messages;
mod query;
mod replays;
mod sequencer;
mod strangers;
mod sync;
mod unread;
mod whole;

use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use system_tests::{Settings, TestEnv};

use crate::{
    deadline::wait_until,
    load::{fill::fill, traffic::Traffic},
    meter::FIVE,
    progress::Progress,
    results::Found,
};

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stage {
    Ingest,
    Sequencer,
    Messages,
    Unread,
    Query,
    LargeAccount,
    Audit,
    Rebuild,
    Whole,
    WholeSingles,
    Latency,
    LoadCurve,
    MemoryIdle,
    Instances,
    IdleConversations,
    Strangers,
    Groups,
    GroupPages,
    Sync,
    GatewayLatency,
    GatewayCpu,
    GatewaySockets,
    Engines,
}

/// All services, as they are shipped.
const EVERYTHING: Settings = Settings {
    as_shipped: true,
    ..Settings::USUAL
};

/// Servers as they are shipped; the services that are measured are started by the stage.
const SERVERS: Settings = Settings {
    without_services: true,
    ..EVERYTHING
};

/// As before there were gateways: what one costs messages is not to be in figures that are compared with earlier ones.
async fn without_gateway(settings: Settings) -> Result<TestEnv> {
    let settings = Settings {
        without_services: true,
        ..settings
    };
    let env = TestEnv::start(settings).await?;
    env.start_services(&FIVE).await?;
    Ok(env)
}

/// Appends so many messages, and waits until a sequencer that runs has put them on `chat.events`.
async fn sequenced(env: &TestEnv, traffic: &Traffic, count: u64) -> Result<()> {
    let progress = Progress::of(env).await?;
    let end = progress.appended().await? + count;
    fill(env, traffic, count)?;
    let appended = async || Ok(progress.appended().await? >= end);
    wait_until("messages on chat.events", appended).await
}

/// What a device has that has synced: it goes on from there, whoever's it is.
async fn token_of(env: &TestEnv, uid: i64) -> Result<String> {
    let synced = env.client.api().sync(uid.try_into()?, None, None).await?;
    Ok(synced.next.to_string())
}

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// How often each side of a pair runs.
    pub(crate) rounds: usize,
    /// How long a closed loop runs.
    pub(crate) length: Duration,
    /// How long the load on everything at once goes on.
    pub(crate) whole: Duration,
}

impl Stage {
    /// Its name on the command line and in the results.
    ///
    /// # Panics
    /// It is hidden from the command line.
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value();
        let value = value.expect("every stage is on the command line");
        value.get_name().to_owned()
    }

    /// Whether it runs only where it is named: an experiment that takes long, whose result is written down.
    pub(crate) fn is_experiment(self) -> bool {
        self == Self::Engines
    }

    /// Measures it on servers of its own.
    ///
    /// # Errors
    /// Something fails; a slow run is no failure.
    pub(crate) async fn run(self, plan: &Plan) -> Result<Found> {
        let mut found: Found = match self {
            Self::LoadCurve => load_curve::run(plan).await?.into(),
            Self::Ingest => ingest::run(plan).await?.into(),
            Self::Sequencer => sequencer::run(plan).await?.into(),
            Self::Messages => messages::run(plan).await?.into(),
            Self::Unread => unread::run(plan).await?.into(),
            Self::Query => query::run(plan).await?.into(),
            Self::LargeAccount => large_account::run(plan).await?.into(),
            Self::Audit => replays::audit(plan).await?.into(),
            Self::Rebuild => replays::rebuild(plan).await?.into(),
            Self::Whole => whole::batches(plan).await?.into(),
            Self::WholeSingles => whole::singles(plan).await?.into(),
            Self::Latency => latency::run(plan).await?.into(),
            Self::MemoryIdle => memory::idle(plan).await?.into(),
            Self::Instances => instances::run(plan).await?.into(),
            Self::IdleConversations => idle_conversations::run(plan).await?.into(),
            Self::Strangers => strangers::run(plan).await?.into(),
            Self::Groups => groups::run(plan).await?.into(),
            Self::GroupPages => group_pages::run(plan).await?.into(),
            Self::Sync => sync::run(plan).await?.into(),
            Self::GatewayLatency => gateway_latency::run(plan).await?.into(),
            Self::GatewayCpu => gateway_cpu::run(plan).await?.into(),
            Self::GatewaySockets => gateway_sockets::run(plan).await?.into(),
            Self::Engines => engines::run(plan).await?.into(),
        };
        found.say_whose(&self.name());
        Ok(found)
    }
}
