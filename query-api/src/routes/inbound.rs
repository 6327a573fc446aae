use access::Caller;
use api::InboundOutcome;
use axum::Json;
use problem::{Path, Problem, Query};
use schemas::InboundPosition;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    call::Call,
    deadline::Deadline,
    error::QueryError,
    inbound::lookup,
    openapi::Refusal,
    parameters::{CallTimeout, PathOffset, PathPartition, from_path},
};

/// The record, as in a 202 response.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct PositionPath {
    /// The partition, 0 to 63.
    #[serde(deserialize_with = "from_path")]
    #[param(value_type = u8, maximum = 63, example = 17)]
    partition: PathPartition,
    /// The offset, from 0.
    #[serde(deserialize_with = "from_path")]
    #[param(value_type = i64, minimum = 0, example = 42)]
    offset: PathOffset,
}

/// Say what became of a send
///
/// Or of a read-ack, or of a change: whatever ingest answered with 202. To users whom it does not concern it is not there. It concerns the two
/// sides of a message, also where it recalls, edits or deletes one; of a read-ack its reader, of a hide, a clear and a change to a contact
/// its author.
#[utoipa::path(
    get,
    path = "/v1/inbound/{partition}/{offset}",
    tag = "query",
    params(PositionPath, CallTimeout),
    responses(
        (status = 200, description = "What became of it.", body = InboundOutcome, examples(
            ("pending" = (summary = "Not sequenced yet", value = json!({"partition": 17, "offset": 42, "state": "pending"}))),
            ("sequenced" = (summary = "A message", value = json!({"partition": 17, "offset": 42, "state": "sequenced", "conversation": "1000,1001", "mid": 3, "events_offset": 57, "ts": "2025-11-21T08:00:00.123Z"}))),
            ("repeat" = (summary = "Sent before", value = json!({"partition": 17, "offset": 43, "state": "repeat", "conversation": "1000,1001", "of_mid": 3, "client_msg_id": "0199f3c0-7a54-7cc1-a4fb-2d2a3c1b9f10", "of_offset": 42, "events_offset": 57}))),
            ("message_changed" = (summary = "A recall", value = json!({"partition": 17, "offset": 45, "state": "message_changed", "conversation": "1000,1001", "mid": 3, "kind": "recall", "chg": 1, "events_offset": 59, "ts": "2025-11-21T08:01:00.123Z"}))),
            ("refused" = (summary = "Changed nothing", value = json!({"partition": 17, "offset": 44, "state": "refused", "reason": "conflict", "detail": "client_msg_id: used before with another msg"}))),
        )),
        Refusal,
        (status = 404, description = "There is no such record yet, or it does not concern the user who asks.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "Kafka or MySQL do not answer.", body = Problem, content_type = "application/problem+json"),
        (status = 504, description = "The log could not be read far enough in time.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn get_inbound(
    call: Call,
    caller: Caller,
    Path(path): Path<PositionPath>,
    Query(query): Query<CallTimeout>,
) -> Result<Json<InboundOutcome>, QueryError> {
    let deadline = Deadline::in_time(query.timeout_ms);
    let position = InboundPosition {
        partition: path.partition.0,
        offset: path.offset.0,
    };
    let outcome = lookup(&call, &caller, position, deadline).await?;
    Ok(Json(InboundOutcome {
        partition: position.partition,
        offset: position.offset,
        outcome,
    }))
}
