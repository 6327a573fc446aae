//! The response to connections above the limit.

use std::time::Duration;

use axum::body::to_bytes;
use axum::http::header::{CONNECTION, CONTENT_LENGTH};
use axum::response::IntoResponse as _;
use problem::Problem;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

/// How long a refused connection may stay open.
pub(crate) const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);

/// The whole response as bytes, for a connection whose request is not read.
pub(crate) async fn response(limit: usize) -> Vec<u8> {
    let (mut head, body) = Problem::too_many_connections(limit)
        .into_response()
        .into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    head.headers
        .insert(CONNECTION, "close".parse().expect("a value"));
    head.headers.insert(CONTENT_LENGTH, body.len().into());
    let mut response = format!("HTTP/1.1 {}\r\n", head.status).into_bytes();
    for (name, value) in &head.headers {
        response.extend_from_slice(name.as_str().as_bytes());
        response.extend_from_slice(b": ");
        response.extend_from_slice(value.as_bytes());
        response.extend_from_slice(b"\r\n");
    }
    response.extend_from_slice(b"\r\n");
    response.extend_from_slice(&body);
    response
}

/// Writes `response` and closes the connection. What the client sends is read for a moment: closing a socket with unread bytes resets
/// the connection, and the client would lose the response.
pub(crate) async fn refuse<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, response: &[u8]) {
    let writing = async {
        stream.write_all(response).await?;
        stream.shutdown().await?;
        let mut unread = [0; 4096];
        while stream.read(&mut unread).await? > 0 {}
        std::io::Result::Ok(())
    };
    let _ = timeout(REFUSAL_TIMEOUT, writing).await;
}
