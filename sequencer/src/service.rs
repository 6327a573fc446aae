use std::convert::Infallible;

use axum::{Json, Router, routing::get};
use service_runtime::{Health, Process, ReadinessCheck, Supervisor, without_calls};
use tokio::sync::watch;

use crate::{
    Config,
    runtime::{Status, Worker},
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
    let worker = Worker::new(&config, status)?;
    let shutdown = supervisor.shutdown();
    supervisor.spawn_thread("sequencer", move || worker.run(shutdown.soft()))?;
    let gate = health.check("sequencer.partitions");
    let soft = supervisor.shutdown().soft().clone();
    supervisor.spawn("sequencer-readiness", {
        let watched = watched.clone();
        async move {
            tokio::select! {
                () = soft.cancelled() => {}
                _ = follow(watched, gate) => soft.cancelled().await,
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

/// Ready once the group has given its share and all of it has started. Ends with the worker.
async fn follow(mut status: watch::Receiver<Status>, gate: ReadinessCheck) -> Option<Infallible> {
    loop {
        {
            let status = status.borrow_and_update();
            if !status.joined {
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
