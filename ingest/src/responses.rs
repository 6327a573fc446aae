//! The responses to an append: 202 or a problem.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use posting::RetryId;
use prost::Message as _;
use schemas::{GroupId, InboundPosition, proto};
use serde::Serialize;
use utoipa::ToSchema;

use crate::media::{PROTOBUF, SingleEncoding};

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
