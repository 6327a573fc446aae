//! One process from its arguments to its exit code, with one or more services in it.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use serde::Serialize;
use tracing::info;

use crate::{
    BindError, ConfigError, ConfigSource, Health, HttpConfig, ListenerPolicy, MetricsHandle,
    ReadinessCheck, RuntimeConfig, Shutdown, Signals, Supervisor, WorkerFailed, allocator,
    bind_listener, health_router, metrics_router, middleware, own_hosts::require_own_host, serve,
    telemetry,
};

const EXIT_FAILURE: u8 = 1;
const EXIT_INTERRUPTED: u8 = 130;

/// How often histograms are compacted; until then every sample stays in memory.
const METRICS_UPKEEP: Duration = Duration::from_secs(5);

/// The means that a process gives to its services: configuration, supervisor, readiness checks, metrics.
#[derive(Debug)]
pub struct Process {
    source: ConfigSource,
    http: HttpConfig,
    supervisor: Supervisor,
    health: Health,
    metrics: MetricsHandle,
}

impl Process {
    /// Loads a service's configuration and logs it, redacted: `process.configure(ingest::Config::load)?`.
    ///
    /// # Errors
    /// Those of `load`.
    pub fn configure<C: Serialize>(
        &self,
        load: impl FnOnce(&ConfigSource) -> Result<C, ConfigError>,
    ) -> Result<C, ConfigError> {
        let config = load(&self.source)?;
        telemetry::report_config(&config);
        Ok(config)
    }

    /// The configuration source, for services that read their sections themselves.
    pub fn source(&self) -> &ConfigSource {
        &self.source
    }

    /// The supervisor of the workers.
    pub fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    /// The readiness checks of `/readyz`.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Configures, starts and serves a service without an API of its own. `listen` gives the address, `setting` its key.
    ///
    /// # Errors
    /// Those of `load` and `start`, and [`BindError`].
    pub async fn run<C: Serialize>(
        &self,
        load: impl FnOnce(&ConfigSource) -> Result<C, ConfigError>,
        (setting, listen): (&str, impl FnOnce(&C) -> SocketAddr),
        start: impl AsyncFnOnce(C, &Supervisor, &Health) -> anyhow::Result<Router>,
    ) -> anyhow::Result<()> {
        let config = self.configure(load)?;
        let addr = listen(&config);
        let api = start(config, &self.supervisor, &self.health).await?;
        self.listen(setting, addr, api).await?;
        Ok(())
    }

    /// Serves `api` with the probes, the fallbacks and the [`middleware`] on `addr`, the value of `setting`. Returns the bound address.
    ///
    /// # Errors
    /// As [`bind_listener`].
    pub async fn listen(
        &self,
        setting: &str,
        addr: SocketAddr,
        api: Router,
    ) -> Result<SocketAddr, BindError> {
        self.listen_with(&self.http, setting, addr, api, None).await
    }

    /// As [`Process::listen`], with another policy. `api` brings its own authentication. At most `read_bytes_per_s` are read of each connection
    /// ([`Listener::read_at_most`](crate::Listener::read_at_most)).
    ///
    /// # Errors
    /// As [`bind_listener`].
    pub async fn listen_with(
        &self,
        policy: &impl ListenerPolicy,
        setting: &str,
        addr: SocketAddr,
        api: Router,
        read_bytes_per_s: Option<u32>,
    ) -> Result<SocketAddr, BindError> {
        let listener = bind_listener(setting, addr, policy, &self.http)?;
        let listener = listener.read_at_most(read_bytes_per_s);
        let addr = listener.local_addr().unwrap_or(addr);
        let api = match policy.answers_anyone() {
            true => require_own_host(api, &self.http.allowed_origins),
            false => api,
        };
        let metrics = policy.guard_metrics(metrics_router(self.metrics.clone()));
        let router = assemble(api, health_router(self.health.clone()).merge(metrics));
        let (http, shutdown) = (self.http.clone(), self.supervisor.shutdown());
        info!(%addr, tls = http.tls.is_some(), "listening");
        self.supervisor.spawn(format!("http {addr}"), async move {
            serve(listener, router, &http, shutdown).await
        });
        Ok(addr)
    }
}

fn assemble(api: Router, probes: Router) -> Router {
    let router = api
        .merge(probes)
        .fallback(problem::fallback)
        .method_not_allowed_fallback(problem::method_not_allowed);
    middleware(router)
}

/// Runs a process from its first log line until a signal or the death of a worker. `wire` starts the services on the process and opens its
/// listeners. [`exit_code`] gives the exit code for the error.
///
/// # Errors
/// Configuration, wiring, or a worker.
pub async fn run_service(
    name: &str,
    version: &str,
    source: ConfigSource,
    wire: impl AsyncFnOnce(&Process) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    allocator::use_small_pages();
    let mut signals = Signals::listen().context("cannot listen for signals")?;
    telemetry::init(&source.section("telemetry")?)?;
    telemetry::start_report(name, version);
    let process = boot(name, source)?;
    let wired = process.health.check("process");
    let outcome = tokio::select! {
        outcome = wire(&process) => outcome.map(|()| wired.ready()),
        () = signals.recv() => {
            info!("stopping: signal while starting");
            process.supervisor.shutdown().begin();
            Ok(())
        }
    };
    if outcome.is_err() {
        process.supervisor.shutdown().begin();
    }
    process.supervisor.spawn(
        "upkeep",
        upkeep(
            process.metrics.clone(),
            wired,
            process.supervisor.shutdown(),
        ),
    );
    let stopped = process.supervisor.run(async || signals.recv().await).await;
    outcome?;
    Ok(stopped?)
}

fn boot(name: &str, source: ConfigSource) -> Result<Process, ConfigError> {
    let runtime: RuntimeConfig = source.section("runtime")?;
    let deadline = Duration::from_millis(runtime.shutdown_deadline_ms);
    Ok(Process {
        http: source.section("http")?,
        source,
        supervisor: Supervisor::new(name, deadline),
        health: Health::new(),
        metrics: MetricsHandle::installed(),
    })
}

/// Compacts the metrics, and makes the process not ready once it is stopping.
async fn upkeep(
    metrics: MetricsHandle,
    wired: ReadinessCheck,
    shutdown: Shutdown,
) -> anyhow::Result<()> {
    let mut ticks = tokio::time::interval(METRICS_UPKEEP);
    loop {
        tokio::select! {
            _ = ticks.tick() => metrics.run_upkeep(),
            () = shutdown.soft().cancelled() => break,
        }
    }
    wired.not_ready("stopping");
    Ok(())
}

/// The exit code for an error of [`run_service`]: 3 for configuration (a port, too), 130 for a second signal, otherwise 1.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    if error.is::<ConfigError>() || error.is::<BindError>() {
        return ConfigError::EXIT_CODE;
    }
    match error.downcast_ref() {
        Some(WorkerFailed::Aborted { .. }) => EXIT_INTERRUPTED,
        _ => EXIT_FAILURE,
    }
}
