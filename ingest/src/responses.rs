//! The responses to an append: 202 or a problem.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use problem::{Problem, ProblemKind};
use prost::Message as _;
use schemas::{GroupId, InboundPosition, proto};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    fair_pool::Full,
    media::{PROTOBUF, SingleEncoding},
    post::{EventKind, RetryId},
};

/// Seconds after which a failed append may be retried.
const RETRY_AFTER_S: u64 = 1;

/// Where an accepted event is on `chat.inbound`; `after=<partition>:<offset>` of a query waits for it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AcceptedBody {
    /// 0 to 63.
    #[schema(maximum = 63, example = 17)]
    partition: u8,
    /// From 0.
    #[schema(minimum = 0, example = 42)]
    offset: i64,
    /// The group that begins; absent for all other events.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    gid: Option<GroupId>,
    /// The id of the send, given or generated; absent for all other events.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_msg_id: Option<String>,
    /// The id of any other command, given or generated. A repeat with it changes nothing (from rule version 4 on).
    #[serde(skip_serializing_if = "Option::is_none")]
    command_id: Option<String>,
}

/// 202, in the encoding of the request.
pub(crate) fn accepted(
    at: InboundPosition,
    id: RetryId,
    gid: Option<GroupId>,
    encoding: SingleEncoding,
) -> Response {
    let partition = at.partition.get();
    let RetryId {
        client_msg_id,
        command_id,
    } = id;
    match encoding {
        SingleEncoding::Json => {
            let body = AcceptedBody {
                partition,
                offset: at.offset,
                gid,
                client_msg_id,
                command_id,
            };
            (StatusCode::ACCEPTED, axum::Json(body)).into_response()
        }
        SingleEncoding::Protobuf => {
            let body = proto::Accepted {
                partition: partition.into(),
                offset: at.offset,
                client_msg_id: client_msg_id.unwrap_or_default(),
                gid: gid.map_or(0, GroupId::get),
                command_id: command_id.unwrap_or_default(),
            };
            let content_type = [(header::CONTENT_TYPE, PROTOBUF)];
            (StatusCode::ACCEPTED, content_type, body.encode_to_vec()).into_response()
        }
    }
}

/// 503: it may be on the log or not, and a repeat with the same id is the same command. Below rule version 4 other ids than a message's do not
/// count, which matters where a repeat covers what came meanwhile.
pub(crate) fn unknown_outcome(kind: EventKind, id: RetryId) -> Problem {
    let advice = match kind {
        EventKind::Message => "retry with the same client_msg_id",
        EventKind::ReadAck
        | EventKind::MessageChange
        | EventKind::ContactChange
        | EventKind::Profile
        | EventKind::Group
        | EventKind::GroupChange => "retry with the same body and command_id",
        EventKind::ReadAckOfLatest => {
            "retry with the same body and command_id; below rule version 4, `latest` would also cover messages that came meanwhile"
        }
        EventKind::ContactDeletion => {
            "retry with the same body and command_id; below rule version 4, it would also cover messages that came meanwhile"
        }
    };
    let mut problem = Problem::unknown_outcome(advice, id.client_msg_id);
    problem.command_id = id.command_id;
    problem.with_retry_after_s(RETRY_AFTER_S)
}

/// 503: it is certainly not on the log.
pub(crate) fn not_appended() -> Problem {
    Problem::unavailable(
        "the log does not take this record at present; nothing was done",
        RETRY_AFTER_S,
    )
}

/// 503: the process stops.
pub(crate) fn stopping() -> Problem {
    Problem::unavailable(
        "the service is stopping; nothing was done from here on",
        RETRY_AFTER_S,
    )
}

/// 429: there is no place for it, or no longer.
pub(crate) fn over_capacity(full: Full) -> Problem {
    let detail = match full {
        Full::Own => return Problem::own_share_in_use(RETRY_AFTER_S),
        Full::Server => return Problem::too_many_requests(RETRY_AFTER_S),
        Full::TakenAway => {
            "its place was needed for another caller: this one held more, or had made no progress for a second; nothing was done from here on, try again later"
        }
    };
    Problem::new(ProblemKind::TooManyRequests, detail).with_retry_after_s(RETRY_AFTER_S)
}
