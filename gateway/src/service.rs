//! Wires the gateway together.

use std::sync::Arc;

use access::Access;
use axum::{
    Router,
    extract::Request,
    http::{HeaderValue, header},
    middleware::{Next, from_fn},
    response::Response,
    routing::get,
};
use ingest::Poster;
use service_runtime::{Health, Process, Supervisor};
use utoipa_axum::router::OpenApiRouter;

use crate::{config::Config, socket, state::Gateway, tail};

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

/// Starts the reader of `chat.events` and returns the calls behind `access`, without probes and middleware. Until MySQL says where to read from,
/// and while Kafka is down, connections are refused with 503.
///
/// # Errors
/// Where librdkafka refuses a setting, or the dictionary of words is not right.
pub async fn start(
    config: Config,
    access: &Access,
    supervisor: &Supervisor,
    health: &Health,
) -> anyhow::Result<Router> {
    let kafka = config.ingest.kafka.clone();
    let poster = Poster::start(config.ingest.clone(), access, supervisor, health)?;
    let shutdown = supervisor.shutdown();
    let gateway = Arc::new(Gateway::new(&config, poster, shutdown));
    let check = health.check("gateway.events");
    supervisor.spawn("gateway events", {
        let gateway = Arc::clone(&gateway);
        async move {
            let Some(begin) = tail::begin(&gateway, &check).await else {
                return Ok(());
            };
            let reading = move || tail::run(&gateway, &kafka, &begin, &check);
            tokio::task::spawn_blocking(reading).await?
        }
    });
    let calls = OpenApiRouter::new().route("/v1/connect", get(socket::connect));
    let (calls, _) = access.guard(calls).with_state(gateway).split_for_parts();
    Ok(calls.layer(from_fn(token_from_subprotocol)))
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
