//! The addresses that a process may listen on.

use std::net::SocketAddr;

use axum::Router;

use crate::{BindError, HttpConfig};

/// Decides which addresses a listener may bind, and which callers may read `/metrics`.
pub trait ListenerPolicy {
    /// Whether a listener may bind `addr`, the value of `setting`.
    ///
    /// # Errors
    /// [`BindError::NotLoopback`].
    fn may_listen(&self, setting: &str, addr: SocketAddr) -> Result<(), BindError>;

    /// Whether the calls of a listener are answered without authentication. If they are, only those under the listener's own names are answered.
    fn answers_anyone(&self) -> bool;

    /// Adds authentication to `/metrics`, if there is any.
    fn guard_metrics(&self, metrics: Router) -> Router;
}

/// The policy of services without an API: loopback only, unless `http.allow_non_loopback` is set; probes and metrics need no token.
impl ListenerPolicy for HttpConfig {
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

    /// There are no calls.
    fn answers_anyone(&self) -> bool {
        false
    }

    fn guard_metrics(&self, metrics: Router) -> Router {
        metrics
    }
}
