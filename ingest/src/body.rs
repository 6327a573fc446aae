//! Request bodies: read within a limit, or drained.

use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes, HttpBody as _};
use bytes::{BufMut as _, BytesMut};
use futures::StreamExt as _;
use problem::{Problem, ProblemKind};
use tokio::time::{Instant, timeout_at};

/// How much of a refused request is still read. Otherwise a client that sends everything before it reads would see its connection reset
/// instead of the response.
const DRAIN_BYTES: usize = 128 * 1024 * 1024;

/// How long it is still read, in all: bytes that trickle in do not extend the time.
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// The length of a body by its header, if it has one.
pub(crate) fn declared_bytes(body: &Body) -> Option<u64> {
    body.size_hint().exact()
}

/// Reads a body of at most `limit_bytes` until `deadline`, which was `allowed` after the beginning.
pub(crate) async fn read(
    body: &mut BodyDataStream,
    limit_bytes: u32,
    deadline: Instant,
    allowed: Duration,
) -> Result<Bytes, Problem> {
    let mut whole = BytesMut::new();
    while let Some(chunk) = timeout_at(deadline, body.next())
        .await
        .map_err(|_elapsed| {
            let allowed_s = allowed.as_secs_f64();
            Problem::request_timeout(format!("the request was not complete after {allowed_s} s"))
        })?
    {
        let chunk = chunk.map_err(|_error| incomplete())?;
        if whole.len() + chunk.len() > limit_bytes as usize {
            return Err(Problem::payload_too_large(limit_bytes.into()));
        }
        whole.put(chunk);
    }
    Ok(whole.freeze())
}

/// The problem of a body that ended before it was complete.
pub(crate) fn incomplete() -> Problem {
    Problem::new(
        ProblemKind::InvalidJson,
        "the body ended before it was complete",
    )
}

/// Reads and drops the rest of a body, within limits. Beyond them the server closes the connection.
pub(crate) async fn drain(mut body: BodyDataStream) {
    let deadline = Instant::now() + DRAIN_TIME;
    let mut seen = 0;
    while let Ok(Some(Ok(chunk))) = timeout_at(deadline, body.next()).await {
        seen += chunk.len();
        if seen > DRAIN_BYTES {
            return;
        }
    }
}
