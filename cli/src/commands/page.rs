//! The small chat at the gateway's `/`, on a stack of this machine.

use std::net::SocketAddr;

use gateway::PageConfig;
use service_runtime::{ConfigSource, HttpConfig};

use crate::client_config::{self, ClientConfig};

/// The addresses that the page calls: those that commands call, too.
pub(super) fn urls(
    source: &ConfigSource,
    ingest: SocketAddr,
    query: SocketAddr,
) -> anyhow::Result<PageConfig> {
    let client: ClientConfig = source.section("client")?;
    let http: HttpConfig = source.section("http")?;
    Ok(PageConfig {
        ingest_url: client_config::base(client.ingest_url.as_deref(), ingest, &http),
        query_url: client_config::base(client.query_url.as_deref(), query, &http),
    })
}

/// The site of a gateway that listens on this port, as a browser on this machine names it: `http.allowed_origins` of the services.
pub(super) fn origins(port: u16, has_tls: bool) -> Vec<String> {
    let scheme = if has_tls { "https" } else { "http" };
    ["127.0.0.1", "localhost"]
        .map(|host| format!("{scheme}://{host}:{port}"))
        .into()
}
