use std::sync::Arc;

use access::Caller;
use axum::{
    extract::{Request, State},
    response::Response,
};
use problem::Problem;

use crate::{
    json,
    json::MessageBody,
    media::{ProtobufBody, SingleEncoding},
    openapi::Refusal,
    parameters::IdempotencyKey,
    protobuf,
    responses::AcceptedBody,
    single,
    state::Ingest,
};

/// Send a message
///
/// The 202 means that it is on the log. Repeat it with the same client_msg_id where the outcome is unknown.
#[utoipa::path(
    post,
    path = "/v1/messages",
    tag = "ingest",
    params(IdempotencyKey),
    request_body(
        description = "A message; in protobuf a `chat.v1.SendMessage`.",
        content(
            (MessageBody = "application/json"),
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
pub(crate) async fn post_message(
    State(ingest): State<Arc<Ingest>>,
    caller: Caller,
    request: Request,
) -> Result<Response, Problem> {
    let max_msg_bytes = ingest.poster.config().max_msg_bytes;
    single::post(&ingest, &caller, request, |encoding, body| match encoding {
        SingleEncoding::Json => json::message(body, max_msg_bytes),
        SingleEncoding::Protobuf => protobuf::message(body, max_msg_bytes),
    })
    .await
}
