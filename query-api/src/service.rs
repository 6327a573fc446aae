//! Wires the query API together.

use std::sync::Arc;

use access::Access;
use axum::Router;
use event_log::LogReader;
use service_runtime::{Health, Process, Supervisor, described};

use crate::{config::Config, limits, openapi, readiness::HealthChecks, state::QueryApi};

/// Reads the configuration, then starts the query API and serves it on its own address; for a process of its own.
///
/// # Errors
/// Configuration, the address, and those of [`start`].
pub async fn serve(process: &Process) -> anyhow::Result<()> {
    let config = process.configure(Config::load)?;
    let listen = config.query_api.listen;
    let (supervisor, health) = (process.supervisor(), process.health());
    let access = Access::start(&config.auth, supervisor)?;
    let api = start(config, &access, supervisor, health).await?;
    process
        .listen_with(&access, "query_api.listen", listen, api, None)
        .await?;
    Ok(())
}

/// Starts the query API and returns its calls protected by `access`, without probes and middleware. Kafka, Redis and MySQL may be down: calls that
/// need them are then answered 503, and `/readyz` shows which are.
///
/// # Errors
/// If librdkafka refuses a setting, or the URL of Redis cannot be used.
pub async fn start(
    config: Config,
    access: &Access,
    supervisor: &Supervisor,
    health: &Health,
) -> anyhow::Result<Router> {
    let log = Arc::new(LogReader::new(&config.kafka)?);
    let api = Arc::new(QueryApi::new(&config, &log)?);
    let checks = HealthChecks::new(Arc::clone(&api), log, health);
    supervisor.spawn("query readiness", checks.run(supervisor.shutdown()));
    let calls = limits::apply(openapi::calls(), &config.query_api);
    Ok(described(access.guard(calls), api))
}
