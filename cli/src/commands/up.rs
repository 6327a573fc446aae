//! Every service in one process, for a laptop: query-api and the gateway on their own ports, all others on ingest's; the gateway serves the chat.

use access::Access;
use axum::Router;
use service_runtime::{HttpConfig, Process, allow_origins};

pub(super) async fn serve(process: &Process) -> anyhow::Result<()> {
    let (supervisor, health) = (process.supervisor(), process.health());
    let ingest = process.configure(ingest::Config::load)?;
    let sequencer = process.configure(sequencer::Config::load)?;
    let unread = process.configure(projector_unread::Config::load)?;
    let mysql = process.configure(projector_mysql::Config::load)?;
    let query = process.configure(query_api::Config::load)?;
    let mut gateway = process.configure(gateway::Config::load)?;
    let (ingest_listen, query_listen) = (ingest.ingest.listen, query.query_api.listen);
    let gateway_listen = gateway.gateway.listen;
    let limit = gateway.gateway.read_bytes_per_s();
    let http: HttpConfig = process.source().section("http")?;
    let mut origins = Vec::new();
    if gateway.gateway.page.is_none() && gateway_listen.ip().is_loopback() {
        let urls = super::page::urls(process.source(), ingest_listen, query_listen)?;
        gateway.gateway.page = Some(urls);
        // Sites named in the configuration already hold for every listener.
        if http.allowed_origins.is_empty() {
            origins = super::page::origins(gateway_listen.port(), http.tls.is_some());
        }
    }
    let access = Access::start(&ingest.auth, supervisor)?;
    let producers = Router::new()
        .merge(ingest::start(ingest, &access, supervisor, health).await?)
        .nest(
            "/sequencer",
            sequencer::start(sequencer, supervisor, health).await?,
        )
        .nest(
            "/projector-unread",
            projector_unread::start(unread, supervisor, health).await?,
        )
        .nest(
            "/projector-mysql",
            projector_mysql::start(mysql, supervisor, health).await?,
        );
    let readers = query_api::start(query, &access, supervisor, health).await?;
    let devices = gateway::start(gateway, &access, supervisor, health).await?;
    let [producers, readers] = [producers, readers].map(|api| allow_origins(api, &origins));
    for (setting, listen, api, limit) in [
        ("ingest.listen", ingest_listen, producers, None),
        ("query_api.listen", query_listen, readers, None),
        ("gateway.listen", gateway_listen, devices, Some(limit)),
    ] {
        process
            .listen_with(&access, setting, listen, api, limit)
            .await?;
    }
    Ok(())
}
