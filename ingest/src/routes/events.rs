use std::sync::Arc;

use access::Caller;
use api::EventBody;
use axum::{
    extract::{Request, State},
    response::Response,
};
use problem::Problem;

use crate::{batch, media::ProtobufBody, state::Ingest};

/// Post many events
///
/// Every line is answered in order, while the body is still being read; a bad line, or one in another's name (403), does not stop the
/// rest. One that is above the caller's rate is answered 429, and none behind it is taken. The last line is `{"accepted":n,"rejected":m}`.
/// Lines without an answer may be on the log: a message with a `client_msg_id`, a read-ack of a `mid` and a change can be posted again, a
/// read-ack of `latest` would then also cover messages that came meanwhile. An edit, a contact change, a profile or a change of a group takes
/// the place of what was posted since, so it is posted again before anything later is.
#[utoipa::path(
    post,
    path = "/v1/events",
    tag = "ingest",
    request_body(
        description = "One event a line; in protobuf length-delimited `chat.v1.IngestEvent`.",
        content(
            (EventBody = "application/x-ndjson"),
            (ProtobufBody = "application/x-protobuf"),
        ),
    ),
    responses(
        (status = 200, description = "One result a line, then a summary; in protobuf length-delimited `chat.v1.EventResult`.", content(
            (batch::ResultLine = "application/x-ndjson"),
            (ProtobufBody = "application/x-protobuf"),
        )),
        (status = 400, description = "The header `Idempotency-Key`: each line has an id of its own.", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "The body's declared length is too large.", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "The media type is none of the two.", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "Too many batches are under way, or the caller sends too many requests.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn post_events(
    State(ingest): State<Arc<Ingest>>,
    caller: Caller,
    request: Request,
) -> Result<Response, Problem> {
    batch::post(&ingest, caller, request).await
}
