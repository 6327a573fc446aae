//! Wires ingest together.

use std::{sync::Arc, time::Duration};

use access::{Access, Caller, CallerQuota, QuotaPermit};
use axum::Router;
use event_log::LogReader;
use service_runtime::{Health, Process, Shutdown, Supervisor, described};
use tokio::time::interval;

use crate::{
    byte_budget::{self, ByteBudget, BytePermit},
    config::{Config, IngestConfig},
    inbound::InboundProducer,
    metrics::IngestMetrics,
    openapi, readiness,
};

const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// What all requests share.
pub(crate) struct Ingest {
    pub(crate) config: IngestConfig,
    pub(crate) access: Access,
    pub(crate) inbound: InboundProducer,
    pub(crate) metrics: Arc<IngestMetrics>,
    /// The bytes of single posts.
    singles: ByteBudget,
    /// The same bytes, with a limit for each user.
    single_quota: Arc<CallerQuota>,
    /// The bytes of the lines and results of batches.
    pub(crate) batches: ByteBudget,
    /// The number of batches.
    pub(crate) batch_quota: Arc<CallerQuota>,
    pub(crate) shutdown: Shutdown,
}

/// The bytes of one single post: of the budget, and of its caller's quota.
pub(crate) struct SinglePermit {
    quota: QuotaPermit,
    bytes: BytePermit,
}

/// Reads the configuration, starts ingest and serves it on its own address.
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
        .listen_with(&access, "ingest.listen", listen, api)
        .await?;
    Ok(())
}

/// Starts ingest's workers and returns its API, authenticated by `access`, without probes and middleware. Without Kafka `/readyz` and posts
/// respond with 503.
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
        readiness::watch(reader, health.check("ingest.kafka"), supervisor.shutdown()),
    );
    supervisor.spawn("ingest in flight", watch_budgets(Arc::clone(&ingest)));
    Ok(described(access.guard(openapi::calls()), ingest))
}

impl Ingest {
    fn new(config: Config, access: Access, shutdown: Shutdown) -> anyhow::Result<Self> {
        let inbound = InboundProducer::new(&config)?;
        let singles_bytes = config.ingest.in_flight_bytes / 4;
        Ok(Self {
            access,
            inbound,
            metrics: Arc::new(IngestMetrics::new()),
            singles: ByteBudget::new(singles_bytes),
            single_quota: CallerQuota::new(
                singles_bytes as usize,
                config.ingest.in_flight_bytes_of_user as usize,
            ),
            batches: ByteBudget::new(config.ingest.in_flight_bytes - singles_bytes),
            batch_quota: CallerQuota::new(
                config.ingest.max_batches,
                config.ingest.max_batches_of_user,
            ),
            config: config.ingest,
            shutdown,
        })
    }

    /// Acquires the bytes of a single post of `caller`, if they are free now.
    pub(crate) fn try_acquire_single(&self, caller: &Caller, bytes: u32) -> Option<SinglePermit> {
        let quota = self.single_quota.try_acquire(caller, bytes as usize)?;
        let bytes = self.singles.try_acquire(bytes)?;
        Some(SinglePermit { quota, bytes })
    }
}

impl SinglePermit {
    /// Gives back all but `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: u32) {
        self.quota.shrink_to(bytes as usize);
        byte_budget::shrink_to(&mut self.bytes, bytes);
    }
}

/// Shows the use of the byte budgets in the metrics; at shutdown it waits until everything was given back.
async fn watch_budgets(ingest: Arc<Ingest>) -> anyhow::Result<()> {
    sample_budgets(&ingest).await?;
    drain_budgets(&ingest).await;
    Ok(())
}

/// Runs until shutdown, or fails with the fatal error of a producer.
async fn sample_budgets(ingest: &Ingest) -> anyhow::Result<()> {
    let mut ticks = interval(SAMPLE_INTERVAL);
    while !ingest.shutdown.soft().is_cancelled() {
        let (singles, batches) = (&ingest.singles, &ingest.batches);
        ingest
            .metrics
            .in_flight(singles.used_bytes(), batches.used_bytes());
        if let Some(error) = ingest.inbound.fatal_error() {
            anyhow::bail!("a producer has a fatal error: {error}");
        }
        tokio::select! {
            _ = ticks.tick() => {}
            () = ingest.shutdown.soft().cancelled() => {}
        }
    }
    Ok(())
}

/// Afterwards every append has its delivery report, so no producer is dropped with records in its queue.
async fn drain_budgets(ingest: &Ingest) {
    tokio::select! {
        _drained = async { (ingest.batches.drained().await, ingest.singles.drained().await) } => {}
        () = ingest.shutdown.hard().cancelled() => {}
    }
}
