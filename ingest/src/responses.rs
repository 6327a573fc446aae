//! The responses to an append: 202 or a problem.

use api::AcceptedBody;
use axum::{
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use posting::RetryId;
use prost::Message as _;
use schemas::{GroupId, InboundPosition, proto};

use crate::media::{PROTOBUF, SingleEncoding};

/// 202, in the encoding of the request.
pub(crate) fn accepted(
    at: InboundPosition,
    id: RetryId,
    gid: Option<GroupId>,
    encoding: SingleEncoding,
) -> Response {
    let RetryId {
        client_msg_id,
        command_id,
    } = id;
    match encoding {
        SingleEncoding::Json => {
            let body = AcceptedBody {
                partition: at.partition,
                offset: at.offset,
                gid,
                client_msg_id,
                command_id,
            };
            (StatusCode::ACCEPTED, axum::Json(body)).into_response()
        }
        SingleEncoding::Protobuf => {
            let body = proto::Accepted {
                partition: at.partition.get().into(),
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
