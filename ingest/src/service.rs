//! Wires ingest together.

use std::sync::Arc;

use access::Access;
use axum::Router;
use posting::{Poster, watch_producer};
use service_runtime::{Health, Process, Supervisor, described};

use crate::{config::Config, openapi, state::Ingest};

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
/// librdkafka refuses a setting, or the dictionary of words is not right.
pub async fn start(
    config: Config,
    access: &Access,
    supervisor: &Supervisor,
    health: &Health,
) -> anyhow::Result<Router> {
    let Config {
        ingest,
        kafka,
        groups,
        mysql,
        auth: _,
    } = config;
    let posts = posting::Config { ingest, groups };
    let poster = Poster::start(posts, &kafka, &mysql, access, supervisor, health, "ingest")?;
    let ingest = Arc::new(Ingest::new(poster, &kafka, supervisor.shutdown())?);
    supervisor.spawn("ingest batches", watch_batches(Arc::clone(&ingest)));
    Ok(described(access.guard(openapi::calls()), ingest))
}

/// Shows the bytes of batches in the metrics.
async fn watch_batches(ingest: Arc<Ingest>) -> anyhow::Result<()> {
    let sample = || {
        let metrics = ingest.poster.metrics();
        metrics.in_flight_of_batches(ingest.batches.used_bytes());
        ingest.lines.fatal_error()
    };
    watch_producer(&ingest.shutdown, sample, ingest.batches.drained()).await
}
