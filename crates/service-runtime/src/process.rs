//! One process from its arguments to its exit code, with one service in it or several.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use clap::{Args as _, Command, FromArgMatches as _};
use serde::Serialize;
use tracing::info;

use crate::{
    BindError, ConfigArgs, ConfigError, ConfigSource, Door, Gate, Health, HttpConfig,
    MetricsHandle, RuntimeConfig, Shutdown, Signals, Supervisor, WorkerFailed, bind_listener,
    health_router, metrics_router, middleware, serve, telemetry, with_causes,
};

const EXIT_FAILURE: u8 = 1;
const EXIT_INTERRUPTED: u8 = 130;

/// Between two upkeeps every sample of every histogram stays in memory.
const METRICS_UPKEEP: Duration = Duration::from_secs(5);

/// How long the runtime may take to let go of what still blocks a thread once everything has been told to stop.
const RUNTIME_GRACE: Duration = Duration::from_secs(1);

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

/// The whole of a service's `main`: arguments, configuration, logs, signals, `wire`, run, exit code.
///
/// `wire` starts the services on the process and opens its listeners:
///
/// ```no_run
/// # mod ingest { pub async fn serve(_: &service_runtime::Process) -> anyhow::Result<()> { Ok(()) } }
/// fn main() -> std::process::ExitCode {
///     service_runtime::main_with("ingest", env!("CARGO_PKG_VERSION"), ingest::serve)
/// }
/// ```
pub fn main_with(
    name: &'static str,
    version: &'static str,
    wire: impl AsyncFnOnce(&Process) -> anyhow::Result<()>,
) -> ExitCode {
    let args = parse_args(name, version);
    match run_on_its_own(name, version, &args, wire) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(name, &error),
    }
}

fn run_on_its_own(
    name: &str,
    version: &str,
    args: &ConfigArgs,
    wire: impl AsyncFnOnce(&Process) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let source = args.load()?;
    let runtime = source.section::<RuntimeConfig>("runtime")?.build()?;
    let ended = runtime.block_on(run_service(name, version, source, wire));
    runtime.shutdown_timeout(RUNTIME_GRACE);
    ended
}

/// Runs what `wire` starts, from the log's first line until a signal or the death of a worker. For a program that has parsed its arguments
/// itself; see [`main_with`] for `wire`, and [`report`] for the error.
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

/// Says on standard error why a process ends, in one line unless the log has said it, and gives the exit code for it.
pub fn report(name: &str, error: &anyhow::Error) -> ExitCode {
    if !error.is::<WorkerFailed>() {
        // Nobody may be there to read it.
        let _ = writeln!(io::stderr(), "{name}: {}", with_causes(error));
    }
    ExitCode::from(exit_code(error))
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

fn parse_args(name: &'static str, version: &'static str) -> ConfigArgs {
    let command = ConfigArgs::augment_args(Command::new(name).version(version));
    let matches = command.get_matches();
    ConfigArgs::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}
