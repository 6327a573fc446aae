use std::sync::Arc;

use access::Caller;
use axum::{
    extract::{Request, State},
    response::Response,
};
use problem::{Path, Problem};

use crate::{
    json,
    json::{GroupBody, GroupChangeBody},
    media::{ProtobufBody, SingleEncoding},
    openapi::Refusal,
    parameters::{GroupPath, IdempotencyKey},
    protobuf,
    responses::AcceptedBody,
    single,
    state::Ingest,
};

/// Begin a group
///
/// The 202 means that it is on the log; `GET /v1/inbound/{partition}/{offset}` of the query API says whether it was done. It may be repeated:
/// a group that is as the body says already is left as it is. Refused as malformed below rule version 3.
#[utoipa::path(
    post,
    path = "/v1/groups",
    tag = "ingest",
    params(IdempotencyKey),
    request_body(
        description = "A group; in protobuf a `chat.v1.ChangeGroup` with `create` and a gid.",
        content(
            (GroupBody = "application/json"),
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
pub(crate) async fn post_group(
    State(ingest): State<Arc<Ingest>>,
    caller: Caller,
    request: Request,
) -> Result<Response, Problem> {
    single::post(&ingest, &caller, request, |encoding, body| match encoding {
        SingleEncoding::Json => json::group(body),
        SingleEncoding::Protobuf => protobuf::group(body),
    })
    .await
}

/// Change a group or its members
///
/// The 202 means that it is on the log; `GET /v1/inbound/{partition}/{offset}` of the query API says whether it was done, or why not: who asks
/// may be no member, or have no right to it. Where the outcome is unknown, repeat it with the same `command_id` or `Idempotency-Key`. Below
/// rule version 4 it may be repeated unless another change was posted meanwhile. Refused as malformed below rule version 3.
#[utoipa::path(
    post,
    path = "/v1/groups/{gid}/changes",
    tag = "ingest",
    params(GroupPath, IdempotencyKey),
    request_body(
        description = "A change; in protobuf a `chat.v1.ChangeGroup`, whose gid is that of the path or absent.",
        content(
            (GroupChangeBody = "application/json"),
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
pub(crate) async fn post_group_change(
    State(ingest): State<Arc<Ingest>>,
    caller: Caller,
    Path(GroupPath { gid }): Path<GroupPath>,
    request: Request,
) -> Result<Response, Problem> {
    single::post(&ingest, &caller, request, |encoding, body| match encoding {
        SingleEncoding::Json => json::group_change(gid, body),
        SingleEncoding::Protobuf => protobuf::group_change(gid, body),
    })
    .await
}
