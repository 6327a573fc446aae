//! How a connection begins: which device it is, and from where its stream goes on.

use std::{sync::Arc, time::Duration};

use axum::extract::ws::{Message, WebSocket};
use schemas::SyncToken;
use tokio::time::sleep;

use super::close_code::{CloseCode, Ended, of_error};
use crate::{
    frames::{ClientFrame, Hello, ServerFrame, parse},
    hub::{Connection, NoStream, StoredMemberships},
    memberships,
    state::Gateway,
};

/// Memberships that MySQL does not have yet are read again, so often and with so much time between.
const ATTEMPTS: usize = 10;
const PAUSE: Duration = Duration::from_millis(200);

/// The first frame.
pub(super) async fn read(socket: &mut WebSocket) -> Result<Hello, Ended> {
    loop {
        match socket.recv().await {
            Some(Ok(Message::Text(text))) => {
                let detail = match parse(&text) {
                    Ok(ClientFrame::Hello(hello)) => return Ok(hello),
                    Ok(_) => "the first frame is hello".to_owned(),
                    Err(error) => error,
                };
                let frame = ServerFrame::Error { detail: &detail }.to_json();
                let written = socket.send(Message::Text(frame.into())).await;
                return Err(written.is_ok().then_some(CloseCode::Malformed));
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(Message::Binary(_))) => return Err(Some(CloseCode::Binary)),
            Some(Ok(Message::Close(_))) | None => return Err(None),
            Some(Err(error)) => return Err(of_error(error)),
        }
    }
}

/// Gives a connection its stream. Which groups its user is in comes from the hub, where it knows the user, otherwise from MySQL.
pub(super) async fn welcome(
    gateway: &Gateway,
    connection: &Arc<Connection>,
    since: &SyncToken,
) -> Result<(), NoStream> {
    let welcome = |stored: &StoredMemberships| {
        let mut hub = gateway.hub().ok_or(NoStream::MembershipsBehind)?;
        hub.welcome(connection, since, stored)
    };
    let known = gateway
        .hub()
        .and_then(|hub| hub.memberships_of(connection.uid()));
    if let Some(known) = known {
        return welcome(&known);
    }
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            sleep(PAUSE).await;
        }
        match memberships::read(gateway, connection.uid()).await {
            Ok(stored) => match welcome(&stored) {
                Err(NoStream::MembershipsBehind) => {}
                welcomed => return welcomed,
            },
            Err(error) => tracing::debug!(%error, "memberships are not read"),
        }
    }
    Err(NoStream::MembershipsBehind)
}
