//! `POST /v1/events`: a body of many events, answered line by line while it is read.
//!
//! A task reads the body, appends its lines and notes each as awaited; delivery reports fill in what became of them; the answer takes the
//! results from the front. The three share one [`results::Results`], and none waits for another unless room runs out.

mod answer;
mod delivery;
mod encoding;
mod framer;
pub mod fuzzing;
mod intake;
mod items;
mod lines;
pub mod measured;
mod results;
mod slots;
mod state;

use std::sync::Arc;

use access::Caller;
use axum::{extract::Request, http::header, response::IntoResponse as _, response::Response};
use problem::Problem;

pub(crate) use delivery::LineDelivery;
pub(crate) use encoding::ResultLine;

use self::{intake::Intake, results::Results};
use crate::{accepted::no_room, body, media::BatchEncoding, service::Ingest};

/// Starts the reading of a batch and answers with the stream of its results.
pub(crate) fn answer(
    ingest: &Arc<Ingest>,
    caller: Caller,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let declared_bytes = body::declared_bytes(&body);
    let body = body.into_data_stream();
    let intake = BatchEncoding::of(&parts.headers)
        .and_then(|encoding| take_on(ingest, caller, encoding, declared_bytes));
    match intake {
        Ok(intake) => {
            let (encoding, results) = (intake.encoding(), intake.results());
            tokio::spawn(intake.run(body));
            let content_type = [(header::CONTENT_TYPE, encoding.media_type())];
            Ok((content_type, answer::stream(results, encoding)).into_response())
        }
        Err(problem) => {
            ingest.metrics.rejected(problem.kind);
            tokio::spawn(body::drain(body));
            Err(problem)
        }
    }
}

fn take_on(
    ingest: &Arc<Ingest>,
    caller: Caller,
    encoding: BatchEncoding,
    declared_bytes: Option<u64>,
) -> Result<Intake, Problem> {
    let limit = u64::from(ingest.config.max_batch_bytes);
    if declared_bytes.is_some_and(|declared| declared > limit) {
        return Err(Problem::payload_too_large(limit));
    }
    let place = ingest.places.take(&caller, 1).ok_or_else(no_room)?;
    let results = Results::new(&ingest.batches, Arc::clone(&ingest.metrics));
    Ok(Intake::new(
        Arc::clone(ingest),
        caller,
        encoding,
        results,
        place,
    ))
}
