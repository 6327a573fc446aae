//! Wires ingest together.

use std::{sync::Arc, time::Duration};

use axum::Router;
use event_log::LogReader;
use service_runtime::{Health, Process, Shutdown, Supervisor, described};
use tokio::{sync::Semaphore, time::interval};

use crate::{
    config::{Config, IngestConfig},
    inbound::Inbound,
    metrics::IngestMetrics,
    openapi, readiness,
    room::Room,
};

const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// What all calls share.
pub(crate) struct Ingest {
    pub(crate) config: IngestConfig,
    pub(crate) inbound: Inbound,
    pub(crate) metrics: Arc<IngestMetrics>,
    /// Room for single posts.
    pub(crate) singles: Arc<Room>,
    /// Room for the lines and results of batches.
    pub(crate) batches: Arc<Room>,
    /// One for each batch that may still be taken on.
    pub(crate) batch_slots: Arc<Semaphore>,
    pub(crate) shutdown: Shutdown,
}

/// Reads the configuration, starts and serves it on its own address: what a process of its own does.
///
/// # Errors
/// Configuration, the address, and those of [`start`].
pub async fn serve(process: &Process) -> anyhow::Result<()> {
    let listen = ("ingest.listen", |config: &Config| config.ingest.listen);
    process.run(Config::load, listen, start).await
}

/// Starts ingest's workers and returns its calls, without probes and middleware. Kafka may be away: then `/readyz` says so and posts
/// are answered 503.
///
/// # Errors
/// Where librdkafka refuses a setting.
pub async fn start(
    config: Config,
    supervisor: &Supervisor,
    health: &Health,
) -> anyhow::Result<Router> {
    let reader = Arc::new(LogReader::new(&config.kafka)?);
    let ingest = Arc::new(Ingest::new(config, supervisor.shutdown())?);
    supervisor.spawn(
        "ingest readiness",
        readiness::watch(reader, health.gate("ingest.kafka"), supervisor.shutdown()),
    );
    supervisor.spawn("ingest in flight", watch_rooms(Arc::clone(&ingest)));
    Ok(described(openapi::calls(), ingest))
}

impl Ingest {
    fn new(config: Config, shutdown: Shutdown) -> anyhow::Result<Self> {
        let inbound = Inbound::new(&config)?;
        let singles_bytes = config.ingest.in_flight_bytes / 4;
        Ok(Self {
            inbound,
            metrics: Arc::new(IngestMetrics::new()),
            singles: Room::new(singles_bytes),
            batches: Room::new(config.ingest.in_flight_bytes - singles_bytes),
            batch_slots: Arc::new(Semaphore::new(config.ingest.max_batches)),
            config: config.ingest,
            shutdown,
        })
    }
}

/// Shows how much is under way, and ends the process when its producers cannot go on. A stop waits here until all of it has come back: what was appended is then delivered or given up, so no
/// producer is dropped with records in its queue.
async fn watch_rooms(ingest: Arc<Ingest>) -> anyhow::Result<()> {
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
    tokio::select! {
        _closed = async { (ingest.batches.close().await, ingest.singles.close().await) } => {}
        () = ingest.shutdown.hard().cancelled() => {}
    }
    Ok(())
}
