//! The calls that post one command.

use std::sync::Arc;

use access::Caller;
use api::{
    AcceptedBody, ContactChangeBody, GroupBody, GroupChangeBody, MessageBody, MessageChangeBody,
    ProfileBody, ReactionBody, ReadAckBody,
};
use axum::{
    extract::{Request, State},
    response::Response,
};
use problem::{Path, Problem};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    json,
    media::{ProtobufBody, SingleEncoding},
    openapi::Refusal,
    parameters::{GroupPath, IdempotencyKey, UserPath},
    protobuf, single,
    state::Ingest,
};

/// Handlers with their description: method and path, with what the path names; what the body is in both encodings; how each is read.
macro_rules! single_posts {
    ($(
        $(#[$doc:meta])+
        $name:ident: $method:ident $path:tt $(of $at:ident in $At:ident)?,
        $body:ident $description:tt,
        |$bytes:ident, $config:ident| $json:expr, $protobuf:expr;
    )+) => {$(
        $(#[$doc])+
        #[utoipa::path(
            $method,
            path = $path,
            tag = "ingest",
            params($($At,)? IdempotencyKey),
            request_body(
                description = $description,
                content(
                    ($body = "application/json"),
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
        pub(crate) async fn $name(
            State(ingest): State<Arc<Ingest>>,
            caller: Caller,
            $(Path($At { $at }): Path<$At>,)?
            request: Request,
        ) -> Result<Response, Problem> {
            let $config = ingest.poster.config();
            single::post(&ingest, &caller, request, |encoding, $bytes| match encoding {
                SingleEncoding::Json => $json,
                SingleEncoding::Protobuf => $protobuf,
            })
            .await
        }
    )+

        /// The calls and their description.
        pub(crate) fn calls() -> OpenApiRouter<Arc<Ingest>> {
            OpenApiRouter::new()$(.routes(routes!($name)))+
        }
    };
}

single_posts! {
    /// Send a message
    ///
    /// The 202 means that it is on the log. Repeat it with the same client_msg_id where the outcome is unknown.
    post_message: post "/v1/messages",
    MessageBody "A message; in protobuf a `chat.v1.SendMessage`.",
    |body, config| json::single(body, |body| json::message(body, config.max_msg_bytes)), protobuf::message(body, config.max_msg_bytes);

    /// Say how far a conversation was read
    ///
    /// A position never goes back. One of `latest` means the newest message when it is sequenced. Where the outcome is unknown (503
    /// `/problems/unknown-outcome`, or no answer), repeat it with the same `command_id` or `Idempotency-Key`: it then covers nothing that came
    /// meanwhile. (Below rule version 4 it would.)
    post_read_ack: post "/v1/read-acks",
    ReadAckBody "A read position; in protobuf a `chat.v1.ReadAck`.",
    |body, _config| json::single(body, json::read_ack), protobuf::read_ack(body);

    /// Recall, edit or hide a message
    ///
    /// The 202 means that it is on the log; `GET /v1/inbound/{partition}/{offset}` of the query API says whether it was done. Where the outcome is
    /// unknown, repeat it with the same `command_id` or `Idempotency-Key`. (Below rule version 4 an edit or a hide again is another change, and an edit takes the place of one that was posted meanwhile.) Refused as malformed below rule version 3.
    post_message_change: post "/v1/message-changes",
    MessageChangeBody "A change to a message; in protobuf a `chat.v1.ChangeMessage`.",
    |body, config| json::single(body, |body| json::message_change(body, config.max_msg_bytes)), protobuf::message_change(body, config.max_msg_bytes);

    /// React to a message
    ///
    /// With an emoji, which replaces the user's former one, or with none, which takes that back. The 202 means that it is on the log;
    /// `GET /v1/inbound/{partition}/{offset}` of the query API says whether it was done. If the outcome is unknown, repeat it with the same
    /// `command_id` or `Idempotency-Key`. Refused as malformed below rule version 5.
    post_reaction: post "/v1/reactions",
    ReactionBody "A reaction; in protobuf a `chat.v1.ChangeMessage` of the kind `CHANGE_KIND_REACT`, whose `msg` is the emoji.",
    |body, _config| json::single(body, json::reaction), protobuf::reaction(body);

    /// Pin, mute, block or delete a contact
    ///
    /// The 202 means that it is on the log; `GET /v1/inbound/{partition}/{offset}` of the query API says whether it was done. Where the outcome is
    /// unknown, repeat it with the same `command_id` or `Idempotency-Key`. (Below rule version 4 a repeat takes the place of a change that was posted meanwhile, and one with `deleted` also covers messages
    /// that came meanwhile.) Refused as malformed below rule version 3.
    post_contact_change: post "/v1/contact-changes",
    ContactChangeBody "A change to a contact; in protobuf a `chat.v1.ChangeContact`.",
    |body, _config| json::single(body, json::contact_change), protobuf::contact_change(body);

    /// Set a profile
    ///
    /// It replaces the earlier profile: a field that is absent here is absent afterwards. The 202 means that it is on the log; with `after=` the calls of the query
    /// API show it. Where the outcome is unknown, repeat it with the same `command_id` or `Idempotency-Key`. (Below rule version 4 it takes the place of one that was posted meanwhile.) Refused as malformed below rule
    /// version 3.
    put_profile: put "/v1/users/{uid}/profile" of uid in UserPath,
    ProfileBody "What others see of the user; in protobuf a `chat.v1.SetProfile`, whose uid is that of the path or absent.",
    |body, _config| json::profile(uid, body), protobuf::profile(uid, body);

    /// Begin a group
    ///
    /// The 202 means that it is on the log; `GET /v1/inbound/{partition}/{offset}` of the query API says whether it was done. It may be repeated:
    /// a group that is as the body says already is left as it is. Refused as malformed below rule version 3.
    post_group: post "/v1/groups",
    GroupBody "A group; in protobuf a `chat.v1.ChangeGroup` with `create` and a gid.",
    |body, _config| json::single(body, json::group), protobuf::group(body);

    /// Change a group or its members
    ///
    /// The 202 means that it is on the log; `GET /v1/inbound/{partition}/{offset}` of the query API says whether it was done, or why not: who asks
    /// may be no member, or have no right to it. Where the outcome is unknown, repeat it with the same `command_id` or `Idempotency-Key`. Below
    /// rule version 4 it may be repeated unless another change was posted meanwhile. Refused as malformed below rule version 3.
    post_group_change: post "/v1/groups/{gid}/changes" of gid in GroupPath,
    GroupChangeBody "A change; in protobuf a `chat.v1.ChangeGroup`, whose gid is that of the path or absent.",
    |body, _config| json::group_change(gid, body), protobuf::group_change(gid, body);
}
