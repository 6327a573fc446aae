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
use axum::{extract::Request, http::header, response::IntoResponse as _, response::Response};
use problem::Problem;

pub(crate) use encoding::ResultLine;

use self::{queue::ResultQueue, reader::BatchReader};
use crate::{body, media::BatchEncoding, responses::over_capacity, state::Ingest};

/// Starts the reading of a batch and responds with the stream of its results.
pub(crate) fn post(
    ingest: &Arc<Ingest>,
    caller: Caller,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let declared_bytes = body::declared_bytes(&body);
    let body = body.into_data_stream();
    let reader = BatchEncoding::of(&parts.headers)
        .and_then(|encoding| new_reader(ingest, caller, encoding, declared_bytes));
    match reader {
        Ok(reader) => {
            let (encoding, queue) = (reader.encoding, Arc::clone(&reader.queue));
            tokio::spawn(reader.run(body));
            let content_type = [(header::CONTENT_TYPE, encoding.media_type())];
            Ok((content_type, response::stream(queue, encoding)).into_response())
        }
        Err(problem) => {
            ingest.metrics.rejected(problem.kind);
            tokio::spawn(body::drain(body));
            Err(problem)
        }
    }
}

fn new_reader(
    ingest: &Arc<Ingest>,
    caller: Caller,
    encoding: BatchEncoding,
    declared_bytes: Option<u64>,
) -> Result<BatchReader, Problem> {
    let limit = u64::from(ingest.config.max_batch_bytes);
    if declared_bytes.is_some_and(|declared| declared > limit) {
        return Err(Problem::payload_too_large(limit));
    }
    let permit = ingest.batch_quota.try_acquire(&caller, 1);
    Ok(BatchReader {
        ingest: Arc::clone(ingest),
        caller,
        encoding,
        queue: ResultQueue::new(&ingest.batches, Arc::clone(&ingest.metrics)),
        _permit: permit.ok_or_else(over_capacity)?,
    })
}
