use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use problem::Problem;

use crate::{
    accepted::AcceptedBody, json, json::ReadAckBody, media::SingleEncoding, protobuf,
    service::Ingest, single,
};

/// Say how far a conversation was read
///
/// It may be repeated at will: a position never goes back.
#[utoipa::path(
    post,
    path = "/v1/read-acks",
    tag = "ingest",
    request_body(
        description = "A read position; in protobuf a `chat.v1.ReadAck`.",
        content(
            (ReadAckBody = "application/json"),
            (Vec<u8> = "application/x-protobuf"),
        ),
    ),
    responses(
        (status = 202, description = "It is on the log; in protobuf a `chat.v1.Accepted`.", content(
            (AcceptedBody = "application/json"),
            (Vec<u8> = "application/x-protobuf"),
        )),
        (status = 400, description = "A field, or the body, is not as it should be.", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "The body did not arrive in time.", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "The body is too large.", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "The media type is none of the two.", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "Too much is under way; nothing was done.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "Not done, or of unknown outcome: the `type` tells.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn post_read_ack(
    State(ingest): State<Arc<Ingest>>,
    request: Request,
) -> Result<Response, Problem> {
    single::answer(&ingest, request, |encoding, body| match encoding {
        SingleEncoding::Json => json::read_ack(body),
        SingleEncoding::Protobuf => protobuf::read_ack(body),
    })
    .await
}
