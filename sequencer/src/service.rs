use std::sync::Arc;

use axum::{Json, Router, routing::get};
use event_log::{HaltedPartitions, LogReader};
use service_runtime::{Health, Process, Supervisor, without_calls};
use tokio::sync::watch;

use crate::{
    Config,
    readiness::Readiness,
    runtime::{GROUP, Status, Worker},
};

/// Reads the configuration, starts the sequencer, and serves it on its own address, as a process of its own.
///
/// # Errors
/// Errors of the configuration and the address, and those of [`start`].
pub async fn serve(process: &Process) -> anyhow::Result<()> {
    let listen = ("sequencer.listen", |config: &Config| {
        config.sequencer.listen
    });
    process.run(Config::load, listen, start).await
}

/// Starts the sequencer on `supervisor` and returns its API: `GET /status`.
///
/// # Errors
/// librdkafka refuses a setting, or the system refuses a thread.
pub async fn start(
    config: Config,
    supervisor: &Supervisor,
    health: &Health,
) -> anyhow::Result<Router> {
    let (status, watched) = watch::channel(Status::default());
    let halted = HaltedPartitions::new(&config.kafka, GROUP);
    let worker = Worker::new(&config, status, halted.clone())?;
    let shutdown = supervisor.shutdown();
    supervisor.spawn_thread("sequencer", move || worker.run(shutdown.soft()))?;
    let readiness = Readiness {
        status: watched.clone(),
        halted,
        log: Arc::new(LogReader::new(&config.kafka)?),
        check: health.check("sequencer.partitions"),
    };
    let soft = supervisor.shutdown().soft().clone();
    supervisor.spawn("sequencer-readiness", async move {
        tokio::select! {
            () = soft.cancelled() => {}
            () = readiness.run() => soft.cancelled().await,
        }
        Ok(())
    });
    Ok(without_calls(
        "Tidemark sequencer",
        "Numbers what comes in. `/status` shows its partitions.",
    )
    .route("/status", get(async move || Json(watched.borrow().clone()))))
}
