use std::sync::Arc;

use access::Caller;
use axum::{
    extract::{Request, State},
    response::Response,
};
use problem::Problem;

use crate::{
    json,
    json::ContactChangeBody,
    media::{ProtobufBody, SingleEncoding},
    openapi::Refusal,
    parameters::IdempotencyKey,
    protobuf,
    responses::AcceptedBody,
    single,
    state::Ingest,
};

/// Pin, mute, block or delete a contact
///
/// The 202 means that it is on the log; `GET /v1/inbound/{partition}/{offset}` of the query API says whether it was done. Where the outcome is
/// unknown, repeat it with the same `command_id` or `Idempotency-Key`. (Below rule version 4 a repeat takes the place of a change that was posted meanwhile, and one with `deleted` also covers messages
/// that came meanwhile.) Refused as malformed below rule version 3.
#[utoipa::path(
    post,
    path = "/v1/contact-changes",
    tag = "ingest",
    params(IdempotencyKey),
    request_body(
        description = "A change to a contact; in protobuf a `chat.v1.ChangeContact`.",
        content(
            (ContactChangeBody = "application/json"),
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
pub(crate) async fn post_contact_change(
    State(ingest): State<Arc<Ingest>>,
    caller: Caller,
    request: Request,
) -> Result<Response, Problem> {
    single::post(&ingest, &caller, request, |encoding, body| match encoding {
        SingleEncoding::Json => json::contact_change(body),
        SingleEncoding::Protobuf => protobuf::contact_change(body),
    })
    .await
}
