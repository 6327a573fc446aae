//! Request bodies: read within limits, or discarded.

use std::time::Duration;

use axum::{
    body::{Body, BodyDataStream, Bytes, HttpBody as _},
    http::{HeaderMap, header},
};
use bytes::{BufMut as _, BytesMut};
use futures::StreamExt as _;
use posting::{Full, PoolPermit, over_capacity};
use problem::{Problem, ProblemKind};
use tokio::time::{Instant, timeout_at};

/// How much of a refused request is still read. Otherwise a client that sends everything before it reads would see its connection reset
/// instead of the response.
const DRAIN_BYTES: usize = 128 * 1024 * 1024;

/// How long it is still read, in all: bytes that trickle in do not extend the time.
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// The body of a request, while it arrives.
pub(crate) struct RequestBody {
    chunks: BodyDataStream,
    /// The length by its header, if it has one.
    declared_bytes: Option<u64>,
    /// The client sends the body when it is asked to (`Expect: 100-continue`), and has not been asked yet. hyper asks when the body is read, unless
    /// the response has begun.
    awaits_continue: bool,
    /// What was read ahead.
    first: Option<Result<Bytes, Problem>>,
}

impl RequestBody {
    pub(crate) fn new(headers: &HeaderMap, body: Body) -> Self {
        let expectation = headers.get(header::EXPECT);
        Self {
            declared_bytes: body.size_hint().exact(),
            awaits_continue: expectation
                .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue")),
            chunks: body.into_data_stream(),
            first: None,
        }
    }

    /// Refuses a body that is too large by its own header.
    pub(crate) fn check_declared(&self, limit_bytes: u32) -> Result<(), Problem> {
        let limit = u64::from(limit_bytes);
        if self.declared_bytes.is_some_and(|declared| declared > limit) {
            return Err(Problem::payload_too_large(limit));
        }
        Ok(())
    }

    /// The next piece; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, Problem>> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        self.awaits_continue = false;
        let chunk = self.chunks.next().await?;
        Some(chunk.map_err(|_error| incomplete()))
    }

    /// Asks a client that waits for it (`Expect: 100-continue`) to send its body. The client would never send it once the response has begun. Returns
    /// when the body has begun, or at the deadline.
    pub(crate) async fn await_expected(&mut self, deadline: Instant) {
        if self.awaits_continue
            && let Ok(first) = timeout_at(deadline, self.next()).await
        {
            self.first = first;
        }
    }

    /// Reads all of it. Bytes are acquired as they arrive: a body that is declared and does not come takes nothing of others.
    pub(crate) async fn read(
        &mut self,
        limit_bytes: u32,
        permit: &mut PoolPermit,
    ) -> Result<Bytes, Problem> {
        let mut whole = BytesMut::new();
        loop {
            let chunk = tokio::select! {
                biased;
                () = permit.taken_away() => return Err(over_capacity(Full::TakenAway)),
                chunk = self.next() => chunk,
            };
            let Some(chunk) = chunk.transpose()? else {
                permit.finish().map_err(over_capacity)?;
                return Ok(whole.freeze());
            };
            if whole.len() + chunk.len() > limit_bytes as usize {
                return Err(Problem::payload_too_large(limit_bytes.into()));
            }
            permit.grow(chunk.len()).map_err(over_capacity)?;
            whole.put(chunk);
        }
    }

    /// Discards the rest of the body of a refused request. A client that is sending it is read on, within limits, beyond which the server closes the
    /// connection. A client that waits to be asked is not asked, and the response closes the connection: otherwise the server would take the next
    /// request for the body.
    pub(crate) fn discard(self) {
        if !self.awaits_continue {
            tokio::spawn(self.drain());
        }
    }

    /// Reads and drops the rest of a body, within limits.
    pub(crate) async fn drain(mut self) {
        let deadline = Instant::now() + DRAIN_TIME;
        let mut seen = 0;
        while let Ok(Some(Ok(chunk))) = timeout_at(deadline, self.next()).await {
            seen += chunk.len();
            if seen > DRAIN_BYTES {
                return;
            }
        }
    }
}

/// The problem of a body that ended before it was complete.
fn incomplete() -> Problem {
    Problem::new(
        ProblemKind::InvalidJson,
        "the body ended before it was complete",
    )
}
