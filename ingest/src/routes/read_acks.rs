use std::sync::Arc;

use access::Caller;
use axum::{
    extract::{Request, State},
    response::Response,
};
use problem::Problem;

use crate::{
    json,
    json::ReadAckBody,
    media::{ProtobufBody, SingleEncoding},
    openapi::Refusal,
    parameters::IdempotencyKey,
    protobuf,
    responses::AcceptedBody,
    single,
    state::Ingest,
};

/// Say how far a conversation was read
///
/// A position never goes back. One of `latest` means the newest message when it is sequenced. Where the outcome is unknown (503
/// `/problems/unknown-outcome`, or no answer), repeat it with the same `command_id` or `Idempotency-Key`: it then covers nothing that came
/// meanwhile. (Below rule version 4 it would.)
#[utoipa::path(
    post,
    path = "/v1/read-acks",
    tag = "ingest",
    params(IdempotencyKey),
    request_body(
        description = "A read position; in protobuf a `chat.v1.ReadAck`.",
        content(
            (ReadAckBody = "application/json"),
            (ProtobufBody = "application/x-protobuf"),
        ),
    ),
    responses(
        (status = 202, description = "It is on the log; in protobuf a `chat.v1.Accepted`.", content(
            (AcceptedBody = "application/json"),
            (ProtobufBody = "application/x-protobuf"),
        )),
        Refusal,
    ),
)]
pub(crate) async fn post_read_ack(
    State(ingest): State<Arc<Ingest>>,
    caller: Caller,
    request: Request,
) -> Result<Response, Problem> {
    single::post(&ingest, &caller, request, |encoding, body| match encoding {
        SingleEncoding::Json => json::read_ack(body),
        SingleEncoding::Protobuf => protobuf::read_ack(body),
    })
    .await
}
