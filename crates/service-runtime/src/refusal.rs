//! What a connection hears that is one too many.

use std::time::Duration;

use axum::body::to_bytes;
use axum::http::header::{CONNECTION, CONTENT_LENGTH};
use axum::response::IntoResponse as _;
use problem::Problem;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

/// How long somebody who is turned away may hold on.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// The whole answer, for a connection whose request is not read.
pub(crate) async fn too_many_connections(limit: usize) -> Vec<u8> {
    let (mut head, body) = Problem::too_many_connections(limit)
        .into_response()
        .into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    head.headers
        .insert(CONNECTION, "close".parse().expect("a value"));
    head.headers.insert(CONTENT_LENGTH, body.len().into());
    let mut answer = format!("HTTP/1.1 {}\r\n", head.status).into_bytes();
    for (name, value) in &head.headers {
        answer.extend_from_slice(name.as_str().as_bytes());
        answer.extend_from_slice(b": ");
        answer.extend_from_slice(value.as_bytes());
        answer.extend_from_slice(b"\r\n");
    }
    answer.extend_from_slice(b"\r\n");
    answer.extend_from_slice(&body);
    answer
}

/// Says `answer` and hangs up. What the client is sending is read for a moment: a connection that is closed over unread bytes is
/// reset, and the answer with it.
pub(crate) async fn turn_away<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, answer: &[u8]) {
    let saying = async {
        stream.write_all(answer).await?;
        stream.shutdown().await?;
        let mut unread = [0; 4096];
        while stream.read(&mut unread).await? > 0 {}
        std::io::Result::Ok(())
    };
    let _ = timeout(PATIENCE, saying).await;
}
