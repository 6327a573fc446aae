//! Serves HTTP/1.1 on one listener until the process stops.
//!
//! `axum::serve` has neither a limit on the time that headers may take nor a way to give up on a connection at the deadline, so the
//! accept loop is here, on hyper's own connection builder.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::HttpBody as _;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use problem::Problem;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use crate::limited_reads::LimitedReads;
use crate::tls::ServerTls;
use crate::{HttpConfig, Listener, Shutdown, allow_origins, too_many_connections};

/// How long to wait after an error of `accept` that is not about one connection; most often there are too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// How many connections above the limit get a response at a time; the others are closed without one.
const REFUSALS: usize = 64;

/// Serves `router` until the soft stage; then takes no new connections, finishes the requests in progress, and drops what is left at the
/// hard stage.
///
/// # Errors
/// None at present: what goes wrong with one connection ends that connection.
pub async fn serve(
    listener: Listener,
    router: Router,
    http: &HttpConfig,
    shutdown: Shutdown,
) -> anyhow::Result<()> {
    let Listener {
        tcp,
        tls,
        read_bytes_per_s,
    } = listener;
    let server = Arc::new(Server {
        builder: connection_builder(http),
        router: allow_origins(router, &http.allowed_origins)
            .layer(from_fn_with_state(HeaderLimits::of(http), limit_headers))
            .layer(from_fn(announce_close)),
        shutdown: shutdown.clone(),
        too_many: too_many_connections::response(http.max_connections).await,
        tls: tls.clone(),
        read_bytes_per_s,
    });
    let connections = TaskTracker::new();
    tokio::select! {
        () = server.accept_all(&tcp, http.max_connections, &connections) => {}
        () = reload_files(tls.as_ref()) => {}
        () = shutdown.soft().cancelled() => {}
    }
    drop(tcp);
    connections.close();
    // Each connection watches the hard stage itself, so this ends with it.
    connections.wait().await;
    Ok(())
}

async fn reload_files(tls: Option<&ServerTls>) {
    match tls {
        Some(tls) => tls.reload_files().await,
        None => std::future::pending().await,
    }
}

/// What all connections of one listener share.
struct Server {
    builder: http1::Builder,
    router: Router,
    shutdown: Shutdown,
    tls: Option<ServerTls>,
    read_bytes_per_s: Option<u32>,
    /// The response to connections above the limit.
    too_many: Vec<u8>,
}

impl Server {
    async fn accept_all(
        self: &Arc<Self>,
        tcp: &TcpListener,
        max_connections: usize,
        connections: &TaskTracker,
    ) {
        let slots = Arc::new(Semaphore::new(max_connections));
        let refusals = Arc::new(Semaphore::new(REFUSALS));
        loop {
            let stream = accept(tcp).await;
            let server = Arc::clone(self);
            if let Ok(slot) = Arc::clone(&slots).try_acquire_owned() {
                connections.spawn(async move {
                    server.serve(stream).await;
                    drop(slot);
                });
            } else if let Ok(permit) = Arc::clone(&refusals).try_acquire_owned() {
                connections.spawn(async move {
                    server.refuse(stream).await;
                    drop(permit);
                });
            }
        }
    }

    /// Serves one connection, after the TLS handshake where there is one.
    async fn serve(&self, stream: TcpStream) {
        let Some(tls) = &self.tls else {
            return self.serve_limited(stream).await;
        };
        let shaken = tokio::select! {
            shaken = timeout(tls.handshake_timeout, tls.acceptor.accept(stream)) => shaken,
            () = self.shutdown.soft().cancelled() => return,
        };
        match shaken {
            Ok(Ok(stream)) => self.serve_limited(stream).await,
            Ok(Err(error)) => debug!(%error, "TLS handshake failed"),
            Err(_elapsed) => debug!("TLS handshake timed out"),
        }
    }

    async fn refuse(&self, stream: TcpStream) {
        debug!("refused a connection: too many are open");
        match &self.tls {
            None => too_many_connections::refuse(stream, &self.too_many).await,
            Some(tls) => {
                let shaken = timeout(
                    too_many_connections::REFUSAL_TIMEOUT,
                    tls.acceptor.accept(stream),
                )
                .await;
                if let Ok(Ok(stream)) = shaken {
                    too_many_connections::refuse(stream, &self.too_many).await;
                }
            }
        }
    }

    async fn serve_limited<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(&self, stream: S) {
        match self.read_bytes_per_s {
            Some(limit) => self.serve_http(LimitedReads::new(stream, limit)).await,
            None => self.serve_http(stream).await,
        }
    }

    /// Serves the requests of one connection.
    async fn serve_http<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(&self, stream: S) {
        let service = TowerToHyperService::new(self.router.clone());
        let connection = self
            .builder
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.shutdown.soft().cancelled() => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection.as_mut() => ended,
                    () = self.shutdown.hard().cancelled() => return,
                }
            }
        };
        if let Err(error) = ended {
            debug!(%error, "connection ended");
        }
    }
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _peer)) => {
                // Responses are small; waiting to fill a packet would only delay them.
                let _ = stream.set_nodelay(true);
                return stream;
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                warn!(%error, "cannot accept connections");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
    )
}

fn connection_builder(http: &HttpConfig) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        // A client that has closed its sending side may still wait for the response.
        .half_close(true)
        .header_read_timeout(Duration::from_millis(http.header_read_timeout_ms))
        // Above this hyper responds without a body and closes. It is also the size of the pieces in which bodies are read.
        .max_buf_size(2 * http.max_header_bytes)
        // As above.
        .max_headers(PARSED_HEADERS);
    builder
}

/// How many headers hyper parses. Above `max_headers` the response is a problem, up to this number.
const PARSED_HEADERS: usize = 1_000;

#[derive(Clone, Copy)]
struct HeaderLimits {
    bytes: usize,
    count: usize,
}

impl HeaderLimits {
    fn of(http: &HttpConfig) -> Self {
        Self {
            bytes: http.max_header_bytes,
            count: http.max_headers,
        }
    }
}

/// Enforces the configured limits on headers. hyper's own limit is on its read buffer: headers that arrive in few reads may be several
/// times larger.
async fn limit_headers(
    State(limits): State<HeaderLimits>,
    request: Request,
    next: Next,
) -> Response {
    let count = request.headers().len();
    if count > limits.count {
        return Problem::too_many_headers(count, limits.count).into_response();
    }
    let of_headers = request.headers().iter();
    // As on the wire: `name: value` and the end of a line.
    let headers: usize = of_headers
        .map(|(name, value)| name.as_str().len() + value.len() + 4)
        .sum();
    let uri = request.uri();
    let bytes = headers + uri.path().len() + uri.query().map_or(0, str::len);
    if bytes > limits.bytes {
        return Problem::headers_too_large(bytes, limits.bytes).into_response();
    }
    next.run(request).await
}

/// hyper closes a connection whose request body nobody read, but notices this only after it has begun the response. A refusal waits for it
/// to look, so that the response says `connection: close`: else the client's next request on that connection would be lost.
async fn announce_close(request: Request, next: Next) -> Response {
    let has_body = !request.body().is_end_stream();
    let response = next.run(request).await;
    if has_body && !response.status().is_success() {
        tokio::task::yield_now().await;
    }
    response
}
