//! How a connection begins: which device it is, and from where its stream goes on.

use std::{sync::Arc, time::Duration};

use axum::extract::ws::{Message, WebSocket};
use schemas::SyncToken;
use tokio::time::{sleep, timeout};

use super::close_code::{CloseCode, Ended, of_error};
use crate::{
    frames::{ClientFrame, Format, Hello, ServerFrame},
    hub::{Connection, NoStream, StoredMemberships},
    memberships,
    state::Gateway,
};

/// Memberships that MySQL does not have yet are read again, so often and with so much time between.
const ATTEMPTS: usize = 10;
const PAUSE: Duration = Duration::from_millis(200);
/// How long Kafka may take to say where the log ends.
const END_TIME: Duration = Duration::from_secs(2);

/// The first frame.
pub(super) async fn read(socket: &mut WebSocket, format: Format) -> Result<Hello, Ended> {
    let message = loop {
        match socket.recv().await {
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(Message::Close(_))) | None => return Err(None),
            Some(Ok(message)) => break message,
            Some(Err(error)) => return Err(of_error(error)),
        }
    };
    let detail = match format.parse(&message) {
        Some(Ok(ClientFrame::Hello(hello))) => return Ok(hello),
        Some(Ok(_)) => "the first frame is hello".to_owned(),
        Some(Err(wrong)) => wrong.detail,
        None => return Err(Some(CloseCode::WrongKind.into())),
    };
    let frame = format.encode(&ServerFrame::Error { detail: &detail });
    let written = socket.send(frame).await;
    let close = CloseCode::Malformed.because(detail);
    Err(written.is_ok().then_some(close))
}

/// Gives a connection its stream. Which groups its user is in comes from the hub, where it knows the user, otherwise from MySQL.
pub(super) async fn welcome(
    gateway: &Gateway,
    connection: &Arc<Connection>,
    since: &SyncToken,
) -> Result<(), NoStream> {
    expect_on_log(gateway, since).await?;
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

/// A token may be ahead of this gateway's rings (W9), but not of the log: then it is of another one, and a device that went on from it would miss
/// everything up to there (W1).
async fn expect_on_log(gateway: &Gateway, since: &SyncToken) -> Result<(), NoStream> {
    let is_behind = match gateway.hub() {
        Some(hub) => hub.is_behind(since)?,
        None => false,
    };
    if !is_behind {
        return Ok(());
    }
    match timeout(END_TIME, gateway.log_ends.reach(since)).await {
        Ok(Ok(true)) => Ok(()),
        Ok(Ok(false)) => Err(NoStream::SyncRequired),
        Ok(Err(error)) => {
            tracing::debug!(%error, "where chat.events ends is not known");
            Err(NoStream::LogEndUnknown)
        }
        Err(_elapsed) => Err(NoStream::LogEndUnknown),
    }
}
