//! Where a process may listen.

use std::io;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

/// Section `http`: what holds for every listener of a process.
#[derive(Debug, Clone, Serialize, Deserialize, garde::Validate)]
#[serde(deny_unknown_fields, default)]
pub struct HttpConfig {
    /// Lets a listener bind an address that other machines can reach. There is no authentication yet.
    #[garde(skip)]
    pub allow_non_loopback: bool,
    /// How long a connection may take to send the headers of its next request; an idle one is closed after this time, too.
    #[garde(range(min = 100, max = 600_000))]
    pub header_read_timeout_ms: u64,
    /// The most that request line and headers may take together; more is answered 431.
    #[garde(range(min = 8_192, max = 1_048_576))]
    pub max_header_bytes: usize,
    /// Connections served at a time; more wait in the system's queue.
    #[garde(range(min = 1, max = 1_000_000))]
    pub max_connections: usize,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            allow_non_loopback: false,
            header_read_timeout_ms: 30_000,
            max_header_bytes: 32 * 1024,
            max_connections: 4_096,
        }
    }
}

/// A listener that could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// Other machines could reach it, and nothing says that they may.
    #[error(
        "{setting}: {addr} can be reached from other machines, and there is no authentication; must be a loopback address (127.0.0.1:{port}), \
         or set http.allow_non_loopback = true", port = addr.port()
    )]
    NotLoopback {
        /// The setting that names the address.
        setting: String,
        /// The address.
        addr: SocketAddr,
    },
    /// Another process listens there.
    #[error(
        "{setting}: port {port} of {ip} is taken by another process; stop it or set {setting} to a free port",
        port = addr.port(), ip = addr.ip()
    )]
    PortTaken {
        /// The setting that names the address.
        setting: String,
        /// The address.
        addr: SocketAddr,
    },
    /// The system refuses it for another reason.
    #[error("{setting}: cannot listen on {addr}: {reason}")]
    Refused {
        /// The setting that names the address.
        setting: String,
        /// The address.
        addr: SocketAddr,
        /// What the system said.
        reason: io::Error,
    },
}

/// Listens on `addr`; `setting` (such as `ingest.bind`) is where the operator can change it. Port 0 takes a free one.
///
/// # Errors
/// See [`BindError`].
pub async fn bind_listener(
    setting: &str,
    addr: SocketAddr,
    http: &HttpConfig,
) -> Result<TcpListener, BindError> {
    let setting = setting.to_owned();
    if !addr.ip().is_loopback() && !http.allow_non_loopback {
        return Err(BindError::NotLoopback { setting, addr });
    }
    TcpListener::bind(addr)
        .await
        .map_err(|reason| match reason.kind() {
            io::ErrorKind::AddrInUse => BindError::PortTaken { setting, addr },
            _ => BindError::Refused {
                setting,
                addr,
                reason,
            },
        })
}
