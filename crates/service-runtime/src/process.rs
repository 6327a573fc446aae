//! One process from its arguments to its exit code, with one service in it or several.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use serde::Serialize;
use tracing::info;

use crate::{
    BindError, ConfigError, ConfigSource, Door, Gate, Health, HttpConfig, MetricsHandle,
    RuntimeConfig, Shutdown, Signals, Supervisor, WorkerFailed, bind_listener, health_router,
    metrics_router, middleware, serve, telemetry,
};

const EXIT_FAILURE: u8 = 1;
const EXIT_INTERRUPTED: u8 = 130;

/// Between two upkeeps every sample of every histogram stays in memory.
const METRICS_UPKEEP: Duration = Duration::from_secs(5);

/// What the services of a process are wired with.
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

    /// Where the configuration comes from.
    pub fn source(&self) -> &ConfigSource {
        &self.source
    }

    /// Runs the workers.
    pub fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    /// Holds the gates of `/readyz`.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// All that a service without calls of its own takes: configures it, starts it, and serves its calls where `listen` says; `setting`
    /// names that key.
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

    /// Serves `api` with the probes, the answers for unknown paths and the [`middleware`] on `addr`, which `setting` names. Returns the
    /// address in use.
    ///
    /// # Errors
    /// As [`bind_listener`].
    pub async fn listen(
        &self,
        setting: &str,
        addr: SocketAddr,
        api: Router,
    ) -> Result<SocketAddr, BindError> {
        self.listen_behind(&self.http, setting, addr, api).await
    }

    /// As [`Process::listen`], behind `door`. What guards `api` itself is in there already.
    ///
    /// # Errors
    /// As [`bind_listener`].
    pub async fn listen_behind(
        &self,
        door: &impl Door,
        setting: &str,
        addr: SocketAddr,
        api: Router,
    ) -> Result<SocketAddr, BindError> {
        let listener = bind_listener(setting, addr, door, &self.http).await?;
        let addr = listener.local_addr().unwrap_or(addr);
        let metrics = door.guard_metrics(metrics_router(self.metrics.clone()));
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
    let mut signals = Signals::listen().context("cannot listen for signals")?;
    telemetry::init(&source.section("telemetry")?)?;
    telemetry::start_report(name, version);
    let process = boot(name, source)?;
    let wired = process.health.gate("process");
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

/// Keeps the metrics small, and takes the process out of rotation as soon as it stops.
async fn upkeep(metrics: MetricsHandle, wired: Gate, shutdown: Shutdown) -> anyhow::Result<()> {
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
