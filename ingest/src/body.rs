//! Request bodies: read whole within a limit, or read and thrown away.

use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes, HttpBody as _};
use bytes::{BufMut as _, BytesMut};
use futures::StreamExt as _;
use problem::{Problem, ProblemKind};
use tokio::time::{Instant, timeout, timeout_at};

/// How much of a refused request is still read. A client that is not listened to before it has sent everything would see its connection
/// reset instead of the answer.
const DRAIN_BYTES: usize = 128 * 1024 * 1024;

/// How long a refused request may pause before it is no longer read.
const DRAIN_STALL: Duration = Duration::from_secs(5);

/// A body's length as its header says it, if it does.
pub(crate) fn declared_bytes(body: &Body) -> Option<u64> {
    body.size_hint().exact()
}

/// Reads a body of at most `limit_bytes` that is complete at `deadline`; a client that is too slow is told that `allowed` is over.
pub(crate) async fn read(
    body: &mut BodyDataStream,
    limit_bytes: u32,
    deadline: Instant,
    allowed: Duration,
) -> Result<Bytes, Problem> {
    let mut whole = BytesMut::new();
    while let Some(chunk) = timeout_at(deadline, body.next())
        .await
        .map_err(|_elapsed| Problem::request_timeout(allowed.as_secs()))?
    {
        let chunk = chunk.map_err(|_error| broken_off())?;
        if whole.len() + chunk.len() > limit_bytes as usize {
            return Err(Problem::payload_too_large(limit_bytes.into()));
        }
        whole.put(chunk);
    }
    Ok(whole.freeze())
}

/// The problem for a body that ended, or became unreadable, before it was complete.
pub(crate) fn broken_off() -> Problem {
    Problem::new(
        ProblemKind::InvalidJson,
        "the body ended before it was complete",
    )
}

/// Reads on for a while without looking at what comes.
pub(crate) async fn drain(mut body: BodyDataStream) {
    let mut seen = 0;
    while let Ok(Some(Ok(chunk))) = timeout(DRAIN_STALL, body.next()).await {
        seen += chunk.len();
        if seen > DRAIN_BYTES {
            return;
        }
    }
}
