//! Wires the gateway together.

use std::{sync::Arc, time::Duration};

use access::Access;
use axum::{Json, Router, middleware::from_fn, routing::get};
use event_log::LogReader;
use posting::Poster;
use service_runtime::{Health, Process, ReadinessCheck, Supervisor};
use tokio::{task::spawn_blocking, time::interval};
use utoipa_axum::router::OpenApiRouter;

use crate::{
    asyncapi::asyncapi, config::Config, dead_letters, metrics, notices, page, presence,
    reading::beginning, socket, state::Gateway, tail,
};

/// How often the newest tokens of devices are written.
const DEVICES_WRITTEN_EVERY: Duration = Duration::from_secs(1);

/// Reads the configuration, starts the gateway and serves it on its own address.
///
/// # Errors
/// Configuration, the address, and those of [`start`].
pub async fn serve(process: &Process) -> anyhow::Result<()> {
    let config = process.configure(Config::load)?;
    let (listen, limit) = (config.gateway.listen, config.gateway.read_bytes_per_s());
    let (supervisor, health) = (process.supervisor(), process.health());
    let access = Access::start(&config.auth, supervisor)?;
    let gateway = start(config, &access, supervisor, health).await?;
    process
        .listen_with(&access, "gateway.listen", listen, gateway, Some(limit))
        .await?;
    Ok(())
}

/// Starts the readers of the logs and returns the calls, guarded by `access`, without probes and middleware. Until MySQL says where to read from, and
/// while Kafka is down, connections are refused with 503.
///
/// # Errors
/// librdkafka refuses a setting, the dictionary of words is not right, or the URL or the files for TLS of Redis cannot be used.
pub async fn start(
    config: Config,
    access: &Access,
    supervisor: &Supervisor,
    health: &Health,
) -> anyhow::Result<Router> {
    metrics::describe();
    let page = config.gateway.page.as_ref();
    let authenticates = config.auth.is_configured();
    let max_msg_bytes = config.posting.ingest.max_msg_bytes;
    let page = page.map(|page| page::routes(page, authenticates, max_msg_bytes));
    let (posts, kafka, mysql) = (config.posting.clone(), &config.kafka, &config.mysql);
    let poster = Poster::start(posts, kafka, mysql, access, supervisor, health, "gateway")?;
    let shutdown = supervisor.shutdown();
    let log = Arc::new(LogReader::new(&config.kafka)?);
    let gateway = Arc::new(Gateway::new(&config, poster, Arc::clone(&log), shutdown)?);
    let check = health.check("gateway.events");
    supervisor.spawn("gateway events", {
        let gateway = Arc::clone(&gateway);
        async move { read(gateway, log, check).await }
    });
    supervisor.spawn("gateway notices", notices::listen(Arc::clone(&gateway)));
    supervisor.spawn("gateway presence", {
        let gateway = Arc::clone(&gateway);
        async move {
            let all_closed = || gateway.all_closed_at_shutdown();
            gateway.presence.run(&gateway.shutdown, all_closed).await;
            Ok(())
        }
    });
    supervisor.spawn("gateway devices", keep_devices(Arc::clone(&gateway)));
    supervisor.spawn("gateway metrics", metrics::sample(Arc::clone(&gateway)));
    let get_presence = get(presence::get_presence).with_state(Arc::clone(&gateway.presence));
    let calls = OpenApiRouter::new()
        .route("/v1/connect", get(socket::connect))
        .route("/v1/presence", get_presence);
    let (calls, _) = access.guard(calls).with_state(gateway).split_for_parts();
    let calls = calls.layer(from_fn(socket::token_from_subprotocol));
    let description = Arc::new(asyncapi());
    let description = get(async move || Json(Arc::clone(&description)));
    let calls = calls.merge(Router::new().route("/asyncapi.json", description));
    Ok(calls.merge(page.unwrap_or_default()))
}

/// Reads events and dead letters until the shutdown.
async fn read(
    gateway: Arc<Gateway>,
    reader: Arc<LogReader>,
    check: ReadinessCheck,
) -> anyhow::Result<()> {
    let shutdown = &gateway.shutdown;
    let Some(ends) = beginning(shutdown, &check, || dead_letters::begin(&reader)).await else {
        return Ok(());
    };
    let Some(begin) = beginning(shutdown, &check, || tail::begin(&gateway, &reader)).await else {
        return Ok(());
    };
    gateway.start_hub(tail::hub(&gateway, &begin));
    let dead_letters = spawn_blocking({
        let (gateway, reader) = (Arc::clone(&gateway), Arc::clone(&reader));
        move || dead_letters::run(&gateway, &reader, &ends)
    });
    let events = spawn_blocking(move || tail::run(&gateway, &reader, begin, &check));
    tokio::try_join!(async { dead_letters.await? }, async { events.await? })?;
    Ok(())
}

/// Writes the tokens of devices until the shutdown, and once more when the last connection has ended.
async fn keep_devices(gateway: Arc<Gateway>) -> anyhow::Result<()> {
    let mut ticks = interval(DEVICES_WRITTEN_EVERY);
    while !gateway.shutdown.soft().is_cancelled() {
        tokio::select! {
            _ = ticks.tick() => {}
            () = gateway.shutdown.soft().cancelled() => {}
        }
        gateway.devices.write(&gateway.store).await;
    }
    tokio::select! {
        () = gateway.all_closed() => {}
        () = gateway.shutdown.hard().cancelled() => {}
    }
    gateway.devices.write(&gateway.store).await;
    Ok(())
}
