use std::sync::Arc;

use access::Caller;
use axum::{
    extract::{Request, State},
    response::Response,
};
use problem::{Path, Problem};

use crate::{
    json,
    json::ProfileBody,
    media::{ProtobufBody, SingleEncoding},
    openapi::Refusal,
    parameters::{IdempotencyKey, UserPath},
    protobuf,
    responses::AcceptedBody,
    single,
    state::Ingest,
};

/// Set a profile
///
/// The whole of it: what is absent is not kept from an earlier one. The 202 means that it is on the log; with `after=` the calls of the query
/// API show it. Where the outcome is unknown, repeat it with the same `command_id` or `Idempotency-Key`. (Below rule version 4 it takes the place of one that was posted meanwhile.) Refused as malformed below rule
/// version 3.
#[utoipa::path(
    put,
    path = "/v1/users/{uid}/profile",
    tag = "ingest",
    params(UserPath, IdempotencyKey),
    request_body(
        description = "What others see of the user; in protobuf a `chat.v1.SetProfile`, whose uid is that of the path or absent.",
        content(
            (ProfileBody = "application/json"),
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
pub(crate) async fn put_profile(
    State(ingest): State<Arc<Ingest>>,
    caller: Caller,
    Path(UserPath { uid }): Path<UserPath>,
    request: Request,
) -> Result<Response, Problem> {
    single::post(&ingest, &caller, request, |encoding, body| match encoding {
        SingleEncoding::Json => json::profile(uid, body),
        SingleEncoding::Protobuf => protobuf::profile(uid, body),
    })
    .await
}
