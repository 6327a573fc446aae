use std::convert::Infallible;

use axum::{Json, Router, routing::get};
use event_log::HaltedPartitions;
use service_runtime::{Health, Process, ReadinessCheck, Supervisor, without_calls};
use tokio::sync::watch;

use crate::{
    Config,
    runtime::{GROUP, Status, Worker},
};

/// Reads the configuration, starts and serves it on its own address: what a process of its own does.
///
/// # Errors
/// Configuration, the address, and those of [`start`].
pub async fn serve(process: &Process) -> anyhow::Result<()> {
    let listen = ("sequencer.listen", |config: &Config| {
        config.sequencer.listen
    });
    process.run(Config::load, listen, start).await
}

/// Starts the sequencer on `supervisor` and returns its API: `GET /status`.
///
/// # Errors
/// Where librdkafka refuses a setting or the system a thread.
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
    let gate = health.check("sequencer.partitions");
    let soft = supervisor.shutdown().soft().clone();
    supervisor.spawn("sequencer-readiness", {
        let watched = watched.clone();
        async move {
            tokio::select! {
                () = soft.cancelled() => {}
                _ = follow(watched, halted, gate) => soft.cancelled().await,
            }
            Ok(())
        }
    });
    Ok(without_calls(
        "Tidemark sequencer",
        "Numbers what comes in. `/status` shows its partitions.",
    )
    .route("/status", get(async move || Json(watched.borrow().clone()))))
}

/// Ready once the group has given its share, all of it has started and nothing is halted. Ends with the worker.
async fn follow(
    mut status: watch::Receiver<Status>,
    halted: HaltedPartitions,
    gate: ReadinessCheck,
) -> Option<Infallible> {
    loop {
        {
            let status = status.borrow_and_update();
            if let Some(reason) = halted.reason() {
                gate.not_ready(reason);
            } else if !status.joined {
                gate.not_ready("joining the consumer group");
            } else if status.starting.is_empty() {
                gate.ready();
            } else {
                gate.not_ready(format!("{} partitions are starting", status.starting.len()));
            }
        }
        status.changed().await.ok()?;
    }
}
