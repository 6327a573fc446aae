//! Wires the gateway together.

use std::sync::Arc;

use access::Access;
use axum::{
    Json, Router,
    extract::Request,
    http::{HeaderValue, header},
    middleware::{Next, from_fn},
    response::Response,
    routing::get,
};
use event_log::{KafkaConfig, LogReader};
use ingest::Poster;
use service_runtime::{Health, Process, ReadinessCheck, Supervisor};
use tokio::task::spawn_blocking;
use utoipa_axum::router::OpenApiRouter;

use crate::{
    asyncapi::asyncapi, config::Config, dead_letters, devices, metrics, notices, page, presence,
    socket, state::Gateway, tail,
};

/// Reads the configuration, starts the gateway and serves it on its own address.
///
/// # Errors
/// Configuration, the address, and those of [`start`].
pub async fn serve(process: &Process) -> anyhow::Result<()> {
    let config = process.configure(Config::load)?;
    let listen = config.gateway.listen;
    let (supervisor, health) = (process.supervisor(), process.health());
    let access = Access::start(&config.ingest.auth, supervisor)?;
    let gateway = start(config, &access, supervisor, health).await?;
    process
        .listen_with(&access, "gateway.listen", listen, gateway)
        .await?;
    Ok(())
}

/// Starts the readers of the logs and returns the calls behind `access`, without probes and middleware. Until MySQL says where to read from,
/// and while Kafka is down, connections are refused with 503.
///
/// # Errors
/// Where librdkafka refuses a setting, the dictionary of words is not right, or the URL or the files for TLS of Redis cannot be used.
pub async fn start(
    config: Config,
    access: &Access,
    supervisor: &Supervisor,
    health: &Health,
) -> anyhow::Result<Router> {
    metrics::describe();
    let kafka = config.ingest.kafka.clone();
    let page = config.gateway.page.as_ref();
    let page = page.map(|page| page::routes(page, &config.ingest));
    let poster = Poster::start(config.ingest.clone(), access, supervisor, health)?;
    let shutdown = supervisor.shutdown();
    let log = Arc::new(LogReader::new(&kafka)?);
    let gateway = Arc::new(Gateway::new(&config, poster, Arc::clone(&log), shutdown)?);
    let check = health.check("gateway.events");
    supervisor.spawn("gateway events", {
        let gateway = Arc::clone(&gateway);
        async move { read(gateway, kafka, log, check).await }
    });
    supervisor.spawn("gateway notices", notices::listen(Arc::clone(&gateway)));
    supervisor.spawn("gateway presence", presence::keep(Arc::clone(&gateway)));
    supervisor.spawn("gateway devices", devices::keep(Arc::clone(&gateway)));
    supervisor.spawn("gateway metrics", metrics::sample(Arc::clone(&gateway)));
    let calls = OpenApiRouter::new()
        .route("/v1/connect", get(socket::connect))
        .route("/v1/presence", get(presence::get_presence));
    let (calls, _) = access.guard(calls).with_state(gateway).split_for_parts();
    let calls = calls.layer(from_fn(token_from_subprotocol));
    let description = Arc::new(asyncapi());
    let description = get(async move || Json(Arc::clone(&description)));
    let calls = calls.merge(Router::new().route("/asyncapi.json", description));
    Ok(calls.merge(page.unwrap_or_default()))
}

/// Reads events and dead letters until the shutdown.
async fn read(
    gateway: Arc<Gateway>,
    kafka: KafkaConfig,
    reader: Arc<LogReader>,
    check: ReadinessCheck,
) -> anyhow::Result<()> {
    let Some(letters) = dead_letters::begin(&gateway, &reader, &check).await else {
        return Ok(());
    };
    let Some(begin) = tail::begin(&gateway, &check).await else {
        return Ok(());
    };
    gateway.begin(tail::hub(&gateway, &begin));
    let letters = spawn_blocking({
        let (gateway, kafka) = (Arc::clone(&gateway), kafka.clone());
        move || dead_letters::run(&gateway, &kafka, &reader, &letters)
    });
    let events = spawn_blocking(move || tail::run(&gateway, &kafka, &begin, &check));
    tokio::try_join!(async { letters.await? }, async { events.await? })?;
    Ok(())
}

/// A browser cannot set `Authorization` on a WebSocket: it offers its token as a second subprotocol, `bearer.<token>`.
async fn token_from_subprotocol(mut request: Request, next: Next) -> Response {
    let headers = request.headers_mut();
    if !headers.contains_key(header::AUTHORIZATION) {
        let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
        let mut offered = offered
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','));
        let token = offered.find_map(|name| name.trim().strip_prefix("bearer."));
        let bearer = token.and_then(|token| HeaderValue::try_from(format!("Bearer {token}")).ok());
        if let Some(bearer) = bearer {
            headers.insert(header::AUTHORIZATION, bearer);
        }
    }
    next.run(request).await
}
