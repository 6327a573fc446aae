//! Serves HTTP/1.1 on one listener until the process stops.
//!
//! `axum::serve` has neither a limit on the time that headers may take nor a way to give up on a connection at the deadline, so the
//! accept loop is here, on hyper's own connection builder.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use problem::Problem;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use crate::{HttpConfig, Shutdown};

/// After an error of `accept` that is not one connection's own, most often too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Serves `router` until the soft stage; then takes no new connections, finishes the requests in progress, and drops what is left at the
/// hard stage.
///
/// # Errors
/// None at present: what goes wrong with one connection ends that connection.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    http: &HttpConfig,
    shutdown: Shutdown,
) -> anyhow::Result<()> {
    let builder = connection_builder(http);
    let router = router.layer(from_fn_with_state(http.max_header_bytes, limit_headers));
    let slots = Arc::new(Semaphore::new(http.max_connections));
    let connections = TaskTracker::new();
    loop {
        let (stream, slot) = tokio::select! {
            () = shutdown.soft().cancelled() => break,
            accepted = accept(&listener, &slots) => accepted,
        };
        let connection = converse(stream, router.clone(), builder.clone(), shutdown.clone());
        connections.spawn(async move {
            connection.await;
            drop(slot);
        });
    }
    drop(listener);
    connections.close();
    // Each connection watches the hard stage itself, so this ends with it.
    connections.wait().await;
    Ok(())
}

fn connection_builder(http: &HttpConfig) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(http.header_read_timeout_ms))
        // Beyond this hyper stops reading, and answers without a word. It reads bodies in pieces of this size, too.
        .max_buf_size(2 * http.max_header_bytes);
    builder
}

/// hyper's own limit is on what it holds in one piece: headers that come quickly are let through at several times that.
async fn limit_headers(State(limit): State<usize>, request: Request, next: Next) -> Response {
    let of_headers = request.headers().iter();
    // As on the wire: `name: value` and the end of a line.
    let headers: usize = of_headers
        .map(|(name, value)| name.as_str().len() + value.len() + 4)
        .sum();
    let uri = request.uri();
    let bytes = headers + uri.path().len() + uri.query().map_or(0, str::len);
    if bytes > limit {
        return Problem::headers_too_large(bytes, limit).into_response();
    }
    next.run(request).await
}

/// The next connection, once there is a slot for it.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> (TcpStream, OwnedSemaphorePermit) {
    let slot = Arc::clone(slots)
        .acquire_owned()
        .await
        .expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, _peer)) => {
                // Answers are small; waiting to fill a packet would only delay them.
                let _ = stream.set_nodelay(true);
                return (stream, slot);
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

/// One connection from its first request to its end.
async fn converse(stream: TcpStream, router: Router, builder: http1::Builder, shutdown: Shutdown) {
    let connection = builder
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .with_upgrades();
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.soft().cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection.as_mut() => ended,
                () = shutdown.hard().cancelled() => return,
            }
        }
    };
    if let Err(error) = ended {
        debug!(%error, "connection ended");
    }
}
