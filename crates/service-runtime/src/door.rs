//! What stands before a listener.

use std::net::SocketAddr;

use axum::Router;

use crate::{BindError, HttpConfig};

/// Decides where a listener may be, and who may see the metrics of its process.
pub trait Door {
    /// Whether a listener may be at `addr`, which `setting` names.
    ///
    /// # Errors
    /// [`BindError::NotLoopback`].
    fn may_listen(&self, setting: &str, addr: SocketAddr) -> Result<(), BindError>;

    /// Puts whatever asks who calls around `/metrics`.
    fn guard_metrics(&self, metrics: Router) -> Router;
}

/// That of listeners without calls of their own: probes and metrics for whoever can reach them.
impl Door for HttpConfig {
    fn may_listen(&self, setting: &str, addr: SocketAddr) -> Result<(), BindError> {
        if addr.ip().is_loopback() || self.allow_non_loopback {
            return Ok(());
        }
        Err(BindError::NotLoopback {
            setting: setting.to_owned(),
            addr,
            remedy: "set http.allow_non_loopback = true",
        })
    }

    fn guard_metrics(&self, metrics: Router) -> Router {
        metrics
    }
}
