//! `POST /v1/events`: a body of many events, answered line by line while it is read.
//!
//! The [`reader`] task reads the body, appends its lines and adds a pending entry for each to the [`queue`] of results. Delivery reports
//! complete the entries. The [`response`] takes complete results from the front. None of the three waits for another unless the byte
//! budget is used up.

pub(crate) mod delivery;
mod encoding;
mod entries;
mod frame;
mod framer;
pub mod fuzzing;
mod items;
mod lines;
pub mod measured;
mod queue;
mod reader;
mod response;

use std::sync::Arc;

use access::Caller;
use axum::{
    extract::Request,
    http::{HeaderMap, header},
    response::{IntoResponse as _, Response},
};
use posting::over_capacity;
use problem::Problem;
use service_runtime::IDEMPOTENCY_KEY;
use tokio::time::Instant;

pub(crate) use encoding::ResultLine;

use self::{queue::ResultQueue, reader::BatchReader};
use crate::{body::RequestBody, media::BatchEncoding, state::Ingest};

/// Starts the reading of a batch and responds with the stream of its results.
pub(crate) async fn post(
    ingest: &Arc<Ingest>,
    caller: Caller,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let mut body = RequestBody::new(&parts.headers, body);
    let reader = BatchEncoding::of(&parts.headers)
        .and_then(|encoding| refuse_key(&parts.headers).map(|()| encoding))
        .and_then(|encoding| new_reader(ingest, caller, encoding, &body));
    if reader.is_ok() {
        body.await_expected(Instant::now() + ingest.poster.config().stall())
            .await;
    }
    match reader {
        Ok(reader) => {
            let (encoding, queue) = (reader.encoding, Arc::clone(&reader.queue));
            tokio::spawn(reader.run(body));
            let content_type = [(header::CONTENT_TYPE, encoding.media_type())];
            Ok((content_type, response::stream(queue, encoding)).into_response())
        }
        Err(problem) => {
            ingest.poster.metrics().rejected(problem.kind);
            body.discard();
            Err(problem)
        }
    }
}

/// One id for all lines would identify none of them.
fn refuse_key(headers: &HeaderMap) -> Result<(), Problem> {
    if !headers.contains_key(IDEMPOTENCY_KEY) {
        return Ok(());
    }
    Err(Problem::invalid_field(
        IDEMPOTENCY_KEY,
        "is given with a batch",
        "absent: each line has a client_msg_id or command_id of its own",
    ))
}

fn new_reader(
    ingest: &Arc<Ingest>,
    caller: Caller,
    encoding: BatchEncoding,
    body: &RequestBody,
) -> Result<BatchReader, Problem> {
    body.check_declared(ingest.poster.config().max_batch_bytes)?;
    let budget = ingest.batches.of(&caller);
    Ok(BatchReader {
        place: ingest.places.begin(&caller, 1).map_err(over_capacity)?,
        ingest: Arc::clone(ingest),
        caller,
        encoding,
        queue: ResultQueue::new(&budget, Arc::clone(ingest.poster.metrics())),
        budget,
    })
}
