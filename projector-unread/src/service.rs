use std::sync::Arc;

use event_log::{KafkaConfig, LogReader};
use message_store::MessageStore;
use projection::Settings;
use schemas::topics::Topic;
use service_runtime::{Health, Process, ReadinessCheck, Supervisor, without_calls};
use tokio_util::sync::CancellationToken;
use unread_rebuild::{RebuildQueue, Rebuilder};
use unread_store::UnreadStore;

use crate::{Config, sink::UnreadSink};

/// Reads the configuration, starts the service and serves it on its own address, as a process of this service alone does.
///
/// # Errors
/// Configuration, the address, and those of [`start`].
pub async fn serve(process: &Process) -> anyhow::Result<()> {
    let listen = ("projector_unread.listen", |config: &Config| {
        config.projector_unread.listen
    });
    process.run(Config::load, listen, start).await
}

/// Starts the projection and the rebuilds; the API is empty beside the probes. Servers may be away: then `/readyz` says so.
///
/// # Errors
/// A URL of Redis cannot be used, or librdkafka refuses a setting.
pub async fn start(
    config: Config,
    supervisor: &Supervisor,
    health: &Health,
) -> anyhow::Result<axum::Router> {
    let own = &config.projector_unread;
    let log = Arc::new(LogReader::new(&config.kafka)?);
    let unread = UnreadStore::new(&config.redis)?;
    let soft = supervisor.shutdown().soft().clone();
    let queue = RebuildQueue::new();

    let sink = UnreadSink::new(
        &unread,
        Arc::clone(&log),
        queue.clone(),
        health.check("projector-unread.redis"),
    );
    supervisor.spawn(
        "projector-unread",
        project(
            config.kafka.clone(),
            own.settings(),
            sink,
            health.check("projector-unread.unread"),
            soft.clone(),
        ),
    );

    let topic = config.kafka.topic(Topic::Events);
    let store = MessageStore::connect(&config.mysql);
    let rebuilder = Rebuilder::new(&store, &log, &unread, &topic, &own.rebuild);
    supervisor.spawn("projector-unread rebuilds", async move {
        queue.run(rebuilder, unread, soft).await;
        Ok(())
    });
    Ok(without_calls(
        "Tidemark projector-unread",
        "Keeps unread counts in Redis equal to the log.",
    ))
}

/// The projection, with one worker.
async fn project(
    kafka: KafkaConfig,
    settings: Settings,
    sink: UnreadSink,
    gate: ReadinessCheck,
    soft: CancellationToken,
) -> anyhow::Result<()> {
    Ok(projection::run(&kafka, settings, vec![sink], |_| 0, gate, soft).await?)
}
