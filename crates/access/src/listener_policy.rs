//! Where a process without authentication may listen, and who may read its metrics.

use std::net::SocketAddr;

use axum::Router;
use service_runtime::{BindError, ListenerPolicy};

use crate::{access::Access, guard};

/// Without authentication a listener must be on loopback.
impl ListenerPolicy for Access {
    fn may_listen(&self, setting: &str, addr: SocketAddr) -> Result<(), BindError> {
        let is_loopback = addr.ip().is_loopback();
        if self.authenticates() {
            return Ok(());
        }
        if is_loopback {
            tracing::info!(%addr, "no authentication is configured: open to loopback only, and to anyone there");
            return Ok(());
        }
        if self.allows_anyone() {
            tracing::warn!(
                %addr,
                "auth.allow_anyone: WHOEVER REACHES THIS ADDRESS MAY READ AND SEND EVERYTHING; publish the port on loopback only"
            );
            return Ok(());
        }
        Err(BindError::NotLoopback {
            setting: setting.to_owned(),
            addr,
            remedy: "say in [auth] who may call (issuers, keys_file); a container whose port is published on loopback only may set \
                auth.allow_anyone = true",
        })
    }

    fn answers_anyone(&self) -> bool {
        !self.authenticates()
    }

    fn guard_metrics(&self, metrics: Router) -> Router {
        guard::for_operators(self.clone(), metrics)
    }
}
