//! Serves HTTP/1.1 on one listener until the process stops.
//!
//! `axum::serve` has neither a limit on the time that headers may take nor a way to abandon a connection at the deadline, so the accept loop is here,
//! on hyper's own connection builder.

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
use problem::Problem;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use crate::answers::Answers;
use crate::connection_slots::{Activity, ConnectionSlots, Slot};
use crate::read_pace::ReadPace;
use crate::tls::ServerTls;
use crate::watched_stream::WatchedStream;
use crate::{HttpConfig, Listener, Shutdown, allow_origins};

/// How long to wait after an error of `accept` that does not concern one connection; most often, too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Serves `router` until the soft stage; then takes no new connections, finishes the requests in progress, and drops what is left at the
/// hard stage.
///
/// # Errors
/// None at present: an error of one connection ends only that connection.
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
        max_connections: http.max_connections,
        first_head_time: Duration::from_millis(http.header_read_timeout_ms),
        tls: tls.clone(),
        read_bytes_per_s,
    });
    let connections = TaskTracker::new();
    tokio::select! {
        // The first two branches never end.
        () = server.accept_all(&tcp, &connections) => {}
        () = reload_files(tls.as_ref()) => {}
        () = shutdown.soft().cancelled() => {}
    }
    drop(tcp);
    connections.close();
    // Each connection watches the hard stage itself, so this wait ends with the hard stage.
    connections.wait().await;
    Ok(())
}

async fn reload_files(tls: Option<&ServerTls>) {
    match tls {
        Some(tls) => tls.reload_files().await,
        None => std::future::pending().await,
    }
}

/// The state that all connections of one listener share.
struct Server {
    builder: http1::Builder,
    router: Router,
    shutdown: Shutdown,
    tls: Option<ServerTls>,
    read_bytes_per_s: Option<u32>,
    max_connections: usize,
    /// How long a connection may take to send its first request, including the TLS handshake before it.
    first_head_time: Duration,
}

impl Server {
    async fn accept_all(self: &Arc<Self>, tcp: &TcpListener, connections: &TaskTracker) {
        let slots = ConnectionSlots::new(self.max_connections);
        loop {
            let stream = accept(tcp).await;
            let Some(slot) = slots.acquire() else {
                debug!("closed a connection: the service works on all others");
                continue;
            };
            let server = Arc::clone(self);
            connections.spawn(async move { server.serve_slot(stream, slot).await });
        }
    }

    /// Serves one connection for as long as it has its slot.
    async fn serve_slot(&self, stream: TcpStream, slot: Slot) {
        let activity = slot.activity();
        let says_nothing = async {
            sleep(self.first_head_time).await;
            if !activity.is_silent() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = self.serve(stream, slot.activity()) => {}
            () = slot.evicted() => debug!("a connection on which the service was not working gave way"),
            () = says_nothing => debug!("a connection sent no request in time"),
        }
    }

    /// Serves a connection, after the TLS handshake if there is one.
    async fn serve(&self, stream: TcpStream, activity: Activity) {
        let Some(tls) = &self.tls else {
            return self.serve_http(stream, activity).await;
        };
        let shaken = tokio::select! {
            shaken = timeout(tls.handshake_timeout, tls.acceptor.accept(stream)) => shaken,
            () = self.shutdown.soft().cancelled() => return,
        };
        match shaken {
            Ok(Ok(stream)) => self.serve_http(stream, activity).await,
            Ok(Err(error)) => debug!(%error, "TLS handshake failed"),
            Err(_elapsed) => debug!("TLS handshake timed out"),
        }
    }

    /// Serves the requests of one connection.
    async fn serve_http<S>(&self, stream: S, activity: Activity)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let answers = Answers::new(self.router.clone(), activity.clone(), self.max_connections);
        let pace = self.read_bytes_per_s.map(ReadPace::new);
        let stream = WatchedStream::new(stream, pace, activity, answers.requests());
        let connection = self
            .builder
            .serve_connection(TokioIo::new(stream), answers)
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
                sleep(ACCEPT_PAUSE).await;
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
        // hyper counts from the end of the previous request, so this is the idle timeout. `serve_slot` has the shorter limit for the first request.
        .header_read_timeout(Duration::from_millis(http.idle_timeout_ms))
        // Above this hyper responds without a body and closes. It is also the size of the pieces in which bodies are read.
        .max_buf_size(2 * http.max_header_bytes)
        // Above this, too, hyper responds without a body and closes.
        .max_headers(PARSED_HEADERS);
    builder
}

/// How many headers hyper parses. Between `max_headers` and this number, the response is a problem.
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
    // The size on the wire: `name: value` and the end of a line.
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

/// hyper closes a connection whose request body was not read, but notices this only after it has begun the response. A refusal waits for hyper to
/// notice, so that the response says `connection: close`: otherwise the client's next request on that connection would be lost.
async fn announce_close(request: Request, next: Next) -> Response {
    let has_body = !request.body().is_end_stream();
    let response = next.run(request).await;
    if has_body && !response.status().is_success() {
        tokio::task::yield_now().await;
    }
    response
}
