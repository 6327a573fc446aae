//! The stages, each with the raw part that it is measured against.

mod drain;
mod engines;
mod idle_conversations;
mod ingest;
mod instances;
mod latency;
mod load_curve;
mod memory;
mod messages;
mod query;
mod replays;
mod sequencer;
mod unread;
mod whole;

use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use system_tests::{Settings, World};

use crate::{
    load::{fill::fill, traffic::Traffic},
    patience::wait_until,
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
    Audit,
    Rebuild,
    Whole,
    WholeSingles,
    Latency,
    LoadCurve,
    MemoryIdle,
    Instances,
    IdleConversations,
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

/// How many records `chat.events` has, those that are no messages among them.
async fn events(world: &World) -> Result<u64> {
    let ends = world.events.ends().await?;
    Ok(ends.values().map(|end| end.cast_unsigned()).sum())
}

/// Appends so many messages, and waits until a sequencer that runs has put them on `chat.events`.
async fn sequenced(world: &World, traffic: &Traffic, count: u64) -> Result<()> {
    let end = events(world).await? + count;
    fill(world, traffic, count)?;
    let appended = async || Ok(events(world).await? >= end);
    wait_until("messages on chat.events", appended).await
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
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Sequencer => "sequencer",
            Self::Messages => "messages",
            Self::Unread => "unread",
            Self::Query => "query",
            Self::Audit => "audit",
            Self::Rebuild => "rebuild",
            Self::Whole => "whole",
            Self::WholeSingles => "whole-singles",
            Self::Latency => "latency",
            Self::LoadCurve => "load-curve",
            Self::MemoryIdle => "memory-idle",
            Self::Instances => "instances",
            Self::IdleConversations => "idle-conversations",
            Self::Engines => "engines",
        }
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
        let rows = match self {
            Self::LoadCurve => return Ok(load_curve::run(self.name(), plan).await?.into()),
            Self::Ingest => ingest::run(self.name(), plan).await,
            Self::Sequencer => sequencer::run(self.name(), plan).await,
            Self::Messages => messages::run(self.name(), plan).await,
            Self::Unread => unread::run(self.name(), plan).await,
            Self::Query => query::run(self.name(), plan).await,
            Self::Audit => replays::audit(self.name(), plan).await,
            Self::Rebuild => replays::rebuild(self.name(), plan).await,
            Self::Whole => whole::batches(self.name(), plan).await,
            Self::WholeSingles => whole::singles(self.name(), plan).await,
            Self::Latency => latency::run(self.name(), plan).await,
            Self::MemoryIdle => memory::idle(self.name(), plan).await,
            Self::Instances => instances::run(self.name(), plan).await,
            Self::IdleConversations => idle_conversations::run(self.name(), plan).await,
            Self::Engines => engines::run(self.name(), plan).await,
        };
        Ok(rows?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_knows_a_stage_by_its_name() {
        for stage in Stage::value_variants() {
            let found = Stage::from_str(stage.name(), false);
            assert_eq!(found.as_ref(), Ok(stage));
        }
    }
}
