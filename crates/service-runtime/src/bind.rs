//! Opens listeners.

use std::io;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpSocket};

use crate::ListenerPolicy;
use crate::cors;
use crate::tls::{ServerTls, TlsConfig, TlsError};

/// How many connections may wait until the service takes them, if the system allows as many: devices that reconnect all at once would have to ask
/// again after 1, 3 and 7 s.
const BACKLOG: u32 = 16_384;

/// Section `http`: settings for every listener of a process.
#[derive(Debug, Clone, Serialize, Deserialize, garde::Validate)]
#[serde(deny_unknown_fields, default)]
pub struct HttpConfig {
    /// Lets a listener without calls of its own (probes and metrics only) bind an address that other machines can reach.
    #[garde(skip)]
    pub allow_non_loopback: bool,
    /// How long a connection may take to send the headers of its first request.
    #[garde(range(min = 100, max = 600_000))]
    pub header_read_timeout_ms: u64,
    /// A connection without a further request is closed after this time. It should be longer than the time for which the proxy in front keeps a
    /// connection open for its next request.
    #[garde(range(min = 100, max = 3_600_000))]
    pub idle_timeout_ms: u64,
    /// The largest size of request line and headers together; more is answered 431.
    #[garde(range(min = 8_192, max = 1_048_576))]
    pub max_header_bytes: usize,
    /// The most headers of a request; more are answered 431.
    #[garde(range(min = 16, max = 500))]
    pub max_headers: usize,
    /// Connections with a request in progress, at each listener; more are answered 503 and closed. Probes and metrics have slots of their own.
    /// Connections without a request give way to others.
    #[garde(range(min = 1, max = 1_000_000))]
    pub max_connections: usize,
    /// The sites whose pages may call this service, as a browser names them (`https://chat.example.org`); all others are refused by browsers.
    #[garde(inner(custom(cors::is_origin)))]
    pub allowed_origins: Vec<String>,
    /// The certificate that listeners show. Without it they speak plain HTTP.
    #[garde(dive)]
    pub tls: Option<TlsConfig>,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            allow_non_loopback: false,
            header_read_timeout_ms: 10_000,
            idle_timeout_ms: 75_000,
            max_header_bytes: 32 * 1024,
            max_headers: 100,
            max_connections: 4_096,
            allowed_origins: Vec::new(),
            tls: None,
        }
    }
}

/// Why a listener could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// Other machines could reach the address, and no setting allows that.
    #[error(
        "{setting}: {addr} can be reached from other machines, and there is no authentication; must be a loopback address (127.0.0.1:{port}), \
         or {remedy}", port = addr.port()
    )]
    NotLoopback {
        /// The setting that names the address.
        setting: String,
        /// The address.
        addr: SocketAddr,
        /// Another remedy.
        remedy: &'static str,
    },
    /// Another process listens on the port.
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
    /// The system refuses the address for another reason.
    #[error("{setting}: cannot listen on {addr}: {reason}")]
    Refused {
        /// The setting that names the address.
        setting: String,
        /// The address.
        addr: SocketAddr,
        /// The error of the system.
        reason: io::Error,
    },
    /// The certificate cannot be served.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A socket that takes connections, with the certificate that it shows.
#[derive(Debug)]
pub struct Listener {
    pub(crate) tcp: TcpListener,
    pub(crate) tls: Option<ServerTls>,
    pub(crate) read_bytes_per_s: Option<u32>,
}

impl Listener {
    /// Reads at most this many bytes a second of each connection, and ten seconds' worth at once; with `None` there is no limit.
    #[must_use]
    pub fn read_at_most(self, bytes_per_s: Option<u32>) -> Self {
        Self {
            read_bytes_per_s: bytes_per_s,
            ..self
        }
    }

    /// The address in use.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = match addr {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    // As `TcpListener::bind` does.
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

/// Listens on `addr`, if `policy` allows it; the operator can change the address by `setting` (such as `ingest.listen`). Port 0 takes a free one.
///
/// # Errors
/// See [`BindError`].
pub fn bind_listener(
    setting: &str,
    addr: SocketAddr,
    policy: &impl ListenerPolicy,
    http: &HttpConfig,
) -> Result<Listener, BindError> {
    policy.may_listen(setting, addr)?;
    let setting = setting.to_owned();
    let tls = http.tls.as_ref().map(ServerTls::load).transpose()?;
    let tcp = listen(addr).map_err(|reason| match reason.kind() {
        io::ErrorKind::AddrInUse => BindError::PortTaken { setting, addr },
        _ => BindError::Refused {
            setting,
            addr,
            reason,
        },
    })?;
    Ok(Listener {
        tcp,
        tls,
        read_bytes_per_s: None,
    })
}
