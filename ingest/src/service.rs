//! Wires ingest together.

use std::{sync::Arc, time::Duration};

use access::{Access, Caller};
use axum::Router;
use event_log::{Admin, LogReader};
use problem::Problem;
use schemas::{InboundPosition, proto::ingest_event::Event};
use service_runtime::{Health, Process, Supervisor, described};
use tokio::time::interval;

use crate::{config::Config, openapi, readiness, single, state::Ingest, words};

const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

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
        .listen_with(&access, "ingest.listen", listen, api, None)
        .await?;
    Ok(())
}

/// Starts ingest's workers and returns its API, authenticated by `access`, without probes and middleware. Without Kafka `/readyz` and posts
/// respond with 503.
///
/// # Errors
/// Where librdkafka refuses a setting, or the dictionary of words is not right.
pub async fn start(
    config: Config,
    access: &Access,
    supervisor: &Supervisor,
    health: &Health,
) -> anyhow::Result<Router> {
    let poster = Poster::start(config, access, supervisor, health)?;
    Ok(described(access.guard(openapi::calls()), poster.0))
}

/// Posts events as ingest's calls do, for a service that takes them over something else than HTTP requests.
#[derive(Clone)]
pub struct Poster(Arc<Ingest>);

impl Poster {
    /// Starts ingest's workers.
    ///
    /// # Errors
    /// As [`start`].
    pub fn start(
        config: Config,
        access: &Access,
        supervisor: &Supervisor,
        health: &Health,
    ) -> anyhow::Result<Self> {
        let reader = Arc::new(LogReader::new(&config.kafka)?);
        let admin = Admin::new(&config.kafka)?;
        let ingest = Arc::new(Ingest::new(config, access.clone(), supervisor.shutdown())?);
        let kafka = health.check("ingest.kafka");
        supervisor.spawn(
            "ingest topic",
            readiness::watch_topic(admin, kafka.clone(), supervisor.shutdown()),
        );
        supervisor.spawn(
            "ingest readiness",
            readiness::watch(reader, kafka, supervisor.shutdown()),
        );
        if let Some(words) = &ingest.words {
            let watched = words::watch(Arc::clone(words), supervisor.shutdown());
            supervisor.spawn("ingest words", watched);
        }
        supervisor.spawn("ingest in flight", watch_budgets(Arc::clone(&ingest)));
        Ok(Self(ingest))
    }

    /// The largest event, bytes.
    #[must_use]
    pub fn max_body_bytes(&self) -> usize {
        self.0.config.max_body_bytes as usize
    }

    /// How long a post may take.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.0.config.request_deadline()
    }

    /// Checks an event, an item of `POST /v1/events`, and appends it. The position is that of `chat.inbound`.
    ///
    /// # Errors
    /// What the call would be answered with.
    pub async fn post(&self, caller: &Caller, event: Event) -> Result<InboundPosition, Problem> {
        single::post_event(&self.0, caller, event).await
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
            .in_flight(singles.used(), batches.used_bytes());
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
