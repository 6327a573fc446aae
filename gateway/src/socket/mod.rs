//! Connections of devices: the upgrade, and the session after it.

mod close_code;
mod credential;
mod liveness;
mod posting;
mod session;

use std::sync::Arc;

use access::{Caller, ValidUntil};
use axum::{
    extract::{
        State,
        ws::{WebSocketUpgrade, rejection::WebSocketUpgradeRejection},
    },
    http::{HeaderMap, header},
    response::{IntoResponse as _, Response},
};
use problem::{Problem, ProblemKind, Query};
use schemas::UserId;
use serde::Deserialize;

pub(crate) use self::{close_code::CloseCode, credential::token_from_subprotocol};
use self::{credential::offers_another, session::Session};
use crate::state::Gateway;

/// The frames are those of [`crate::frames`].
pub(crate) const SUBPROTOCOL: &str = "tidemark.v1.json";

/// With the defaults a connection takes 128 KiB for reading alone.
const READ_BUFFER_BYTES: usize = 1_024;

/// Frames that wait together are written together, up to this many bytes. A connection that once had so much keeps the buffer.
const WRITE_BUFFER_BYTES: usize = 4_096;

/// After this a connection that was one too many may be tried again, seconds.
const RETRY_AFTER_S: u64 = 1;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConnectQuery {
    /// Whose device it is, if the caller is not a user.
    #[serde(default)]
    uid: Option<UserId>,
}

/// The caller at the other end.
struct Peer {
    uid: UserId,
    caller: Caller,
    until: ValidUntil,
    /// The caller may only read as the user, and not act: nothing that it does is the user's.
    is_reader: bool,
}

/// Upgrades to a WebSocket.
pub(crate) async fn connect(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    until: ValidUntil,
    Query(query): Query<ConnectQuery>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        Err(rejection) => return Ok(no_upgrade(&rejection)),
    };
    let uid = match (&caller, query.uid) {
        (Caller::User(subject), None) => *subject,
        (_, Some(uid)) => uid,
        (_, None) => return Err(Problem::invalid_field("uid", "is missing", "present")),
    };
    caller.may_read(uid)?;
    if caller == Caller::Anyone && is_of_another_site(&headers) {
        return Err(Problem::forbidden_field(
            "Origin",
            format_args!("is {:?}", headers[header::ORIGIN]),
            "of the site of `Host`: pages of others connect where callers are authenticated ([auth])",
        ));
    }
    let is_open = gateway.is_reading() && !gateway.shutdown.soft().is_cancelled();
    if !is_open || gateway.connection_count() >= gateway.config.max_connections {
        return Err(Problem::unavailable(
            "this gateway takes no connections at present",
            RETRY_AFTER_S,
        ));
    }
    // If callers are not authenticated, the user is the one in the call.
    let account = match &caller {
        Caller::Anyone => Caller::User(uid),
        caller => caller.clone(),
    };
    let Some(place) = gateway.places.try_acquire(&account, 1) else {
        let mut problem = Problem::too_many_requests(RETRY_AFTER_S);
        let most = gateway.config.max_connections_of_user();
        problem.detail = format!("this user has {most} connections to this gateway; must be fewer");
        return Err(problem);
    };
    let upgrade = upgrade.protocols([SUBPROTOCOL]);
    if upgrade.selected_protocol().is_none() && offers_another(&headers) {
        return Err(Problem::invalid_field(
            "Sec-WebSocket-Protocol",
            "does not have the subprotocol of this gateway",
            format_args!("{SUBPROTOCOL}, or absent"),
        ));
    }
    let upgrade = limit_socket(upgrade, gateway.poster.config().max_body_bytes as usize);
    let peer = Peer {
        uid,
        is_reader: caller.may_send_as(uid, "uid").is_err(),
        caller,
        until,
    };
    Ok(upgrade.on_upgrade(move |socket| async move {
        let _place = place;
        if let Some(_permit) = gateway.connection_permit() {
            Session::run(&gateway, peer, socket).await;
        }
    }))
}

/// What a call has to have to become a WebSocket (RFC 6455, 4.4).
fn no_upgrade(rejection: &WebSocketUpgradeRejection) -> Response {
    if let WebSocketUpgradeRejection::WebSocketKeyHeaderMissing(_) = rejection {
        return Problem::invalid_field("Sec-WebSocket-Key", "is missing", "present")
            .into_response();
    }
    let detail = "this is a WebSocket; must have `Connection: Upgrade`, `Upgrade: websocket` and `Sec-WebSocket-Version: 13`";
    let headers = [
        (header::CONNECTION, "Upgrade"),
        (header::UPGRADE, "websocket"),
        (header::SEC_WEBSOCKET_VERSION, "13"),
    ];
    (headers, Problem::new(ProblemKind::UpgradeRequired, detail)).into_response()
}

/// The buffers of a connection, and the largest frame.
pub fn limit_socket(upgrade: WebSocketUpgrade, max_bytes: usize) -> WebSocketUpgrade {
    upgrade
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(WRITE_BUFFER_BYTES)
        .max_frame_size(max_bytes)
        .max_message_size(max_bytes)
}

/// A browser sends `Origin` with every WebSocket, and asks nobody whether the page may connect.
fn is_of_another_site(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else {
        return false;
    };
    let host = headers.get(header::HOST).map(|host| host.as_bytes());
    let text = origin.as_bytes();
    let site = text.splitn(3, |byte| *byte == b'/').nth(2);
    site.is_none() || site != host
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_page_is_of_this_site_or_of_another() {
        for (origin, other) in [
            ("http://127.0.0.1:7308", false),
            ("https://127.0.0.1:7308", false),
            ("http://127.0.0.1:8000", true),
            ("http://evil.example", true),
            ("null", true),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static("127.0.0.1:7308"));
            headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            assert_eq!(is_of_another_site(&headers), other, "{origin}");
        }
        assert!(!is_of_another_site(&HeaderMap::new()));
    }
}
