//! Wires ingest together.

use std::{sync::Arc, time::Duration};

use access::{Access, Caller, Share, Shares};
use axum::Router;
use event_log::LogReader;
use service_runtime::{Health, Process, Shutdown, Supervisor, described};
use tokio::time::interval;

use crate::{
    config::{Config, IngestConfig},
    inbound::Inbound,
    metrics::IngestMetrics,
    openapi, readiness,
    room::{Room, Taken},
};

const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// What all calls share.
pub(crate) struct Ingest {
    pub(crate) config: IngestConfig,
    pub(crate) access: Access,
    pub(crate) inbound: Inbound,
    pub(crate) metrics: Arc<IngestMetrics>,
    /// Room for single posts.
    pub(crate) singles: Arc<Room>,
    /// How much of it each user takes, bytes.
    pub(crate) singles_of_users: Arc<Shares>,
    /// Room for the lines and results of batches.
    pub(crate) batches: Arc<Room>,
    /// Places for batches.
    pub(crate) places: Arc<Shares>,
    pub(crate) shutdown: Shutdown,
}

/// Room for one single post, of the whole and of its caller's share.
pub(crate) struct SingleRoom {
    share: Share,
    taken: Taken,
}

/// Reads the configuration, starts and serves it on its own address: what a process of its own does.
///
/// # Errors
/// Configuration, the address, and those of [`start`].
pub async fn serve(process: &Process) -> anyhow::Result<()> {
    let config = process.configure(Config::load)?;
    let listen = config.ingest.listen;
    let (supervisor, health) = (process.supervisor(), process.health());
    let access = Access::start(&config.auth, supervisor)?;
    let api = start(config, &access, supervisor, health).await?;
    process
        .listen_behind(&access, "ingest.listen", listen, api)
        .await?;
    Ok(())
}

/// Starts ingest's workers and returns its calls behind `access`, without probes and middleware. Kafka may be away: then `/readyz` says
/// so and posts are answered 503.
///
/// # Errors
/// Where librdkafka refuses a setting.
pub async fn start(
    config: Config,
    access: &Access,
    supervisor: &Supervisor,
    health: &Health,
) -> anyhow::Result<Router> {
    let reader = Arc::new(LogReader::new(&config.kafka)?);
    let ingest = Arc::new(Ingest::new(config, access.clone(), supervisor.shutdown())?);
    supervisor.spawn(
        "ingest readiness",
        readiness::watch(reader, health.gate("ingest.kafka"), supervisor.shutdown()),
    );
    supervisor.spawn("ingest in flight", watch_rooms(Arc::clone(&ingest)));
    Ok(described(access.guard(openapi::calls()), ingest))
}

impl Ingest {
    fn new(config: Config, access: Access, shutdown: Shutdown) -> anyhow::Result<Self> {
        let inbound = Inbound::new(&config)?;
        let singles_bytes = config.ingest.in_flight_bytes / 4;
        Ok(Self {
            access,
            inbound,
            metrics: Arc::new(IngestMetrics::new()),
            singles: Room::new(singles_bytes),
            singles_of_users: Shares::new(
                singles_bytes as usize,
                config.ingest.in_flight_bytes_of_user as usize,
            ),
            batches: Room::new(config.ingest.in_flight_bytes - singles_bytes),
            places: Shares::new(config.ingest.max_batches, config.ingest.max_batches_of_user),
            config: config.ingest,
            shutdown,
        })
    }

    /// Takes room for a single post of `caller`, if there is some now.
    pub(crate) fn room_of(&self, caller: &Caller, bytes: u32) -> Option<SingleRoom> {
        let share = self.singles_of_users.take(caller, bytes as usize)?;
        let taken = self.singles.try_take(bytes)?;
        Some(SingleRoom { share, taken })
    }
}

impl SingleRoom {
    /// Gives back all but `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: u32) {
        self.share.shrink_to(bytes as usize);
        self.taken.shrink_to(bytes);
    }
}

/// Watches what is under way until a stop, which waits here until all of it has come back.
async fn watch_rooms(ingest: Arc<Ingest>) -> anyhow::Result<()> {
    sample_rooms(&ingest).await?;
    drain_rooms(&ingest).await;
    Ok(())
}

/// Shows how much is under way until a stop, and fails when the producers cannot go on.
async fn sample_rooms(ingest: &Ingest) -> anyhow::Result<()> {
    let mut ticks = interval(SAMPLE_INTERVAL);
    while !ingest.shutdown.soft().is_cancelled() {
        let (singles, batches) = (&ingest.singles, &ingest.batches);
        ingest
            .metrics
            .in_flight(singles.taken_bytes(), batches.taken_bytes());
        if let Some(error) = ingest.inbound.fatal_error() {
            anyhow::bail!("a producer cannot go on: {error}");
        }
        tokio::select! {
            _ = ticks.tick() => {}
            () = ingest.shutdown.soft().cancelled() => {}
        }
    }
    Ok(())
}

/// What was appended is then delivered or given up, so no producer is dropped with records in its queue.
async fn drain_rooms(ingest: &Ingest) {
    tokio::select! {
        _closed = async { (ingest.batches.close().await, ingest.singles.close().await) } => {}
        () = ingest.shutdown.hard().cancelled() => {}
    }
}
