//! A device's sends and reads, posted by ingest's own code.

use std::sync::Arc;

use problem::{Problem, ProblemKind};
use schemas::{DeviceClass, InboundPosition, Recipient};

use super::Peer;
use crate::{
    frames::{ReadFrame, SendFrame, ServerFrame},
    hub::{Connection, PostedSend},
    state::Gateway,
};

/// Sends of a connection whose outcome is not known yet; another one is refused.
const MAX_SENDS: usize = 128;

/// Posts a send. The device is told that it is accepted, and later what has become of it.
pub(super) async fn send(
    gateway: &Gateway,
    peer: &Peer,
    connection: &Arc<Connection>,
    frame: SendFrame,
) {
    if connection.sends_under_way() >= MAX_SENDS {
        let refused = ServerFrame::Refused {
            reference: &frame.reference,
            reason: "too-many-under-way",
            detail: "what became of so many sends is not known yet; send it again when some are answered",
            retry: true,
        };
        return connection.push_frame(&refused);
    }
    let decided_before = frame
        .partition(peer.uid)
        .and_then(|partition| gateway.hub()?.decided(partition));
    let event = frame.to_event(peer.uid);
    let Some(at) = post(gateway, peer, connection, &event, &frame.reference).await else {
        return;
    };
    let key = match frame.group() {
        Some(gid) => Recipient::Group(gid),
        None => Recipient::User(peer.uid),
    };
    if let Some(mut hub) = gateway.hub() {
        hub.track(PostedSend {
            at,
            connection: Arc::clone(connection),
            client_msg_id: frame.client_msg_id(),
            reference: frame.reference,
            key,
            decided_before,
        });
    }
}

/// Posts a read-ack on the device's class.
pub(super) async fn read(
    gateway: &Gateway,
    peer: &Peer,
    connection: &Connection,
    class: DeviceClass,
    frame: ReadFrame,
) {
    let event = frame.to_event(peer.uid, class);
    post(gateway, peer, connection, &event, &frame.reference).await;
}

async fn post(
    gateway: &Gateway,
    peer: &Peer,
    connection: &Connection,
    event: &str,
    reference: &str,
) -> Option<InboundPosition> {
    match gateway.poster.post(&peer.caller, event.as_bytes()).await {
        Ok(at) => {
            let accepted = ServerFrame::Accepted {
                reference,
                at: at.into(),
            };
            connection.push_frame(&accepted);
            Some(at)
        }
        Err(problem) => {
            let refused = ServerFrame::Refused {
                reference,
                reason: problem.kind.name(),
                detail: &problem.detail,
                retry: may_be_repeated(&problem),
            };
            connection.push_frame(&refused);
            None
        }
    }
}

/// Whether the same may be accepted later, or, where the outcome is unknown, has been.
fn may_be_repeated(problem: &Problem) -> bool {
    matches!(
        problem.kind,
        ProblemKind::TooManyRequests
            | ProblemKind::RateLimited
            | ProblemKind::Unavailable
            | ProblemKind::UnknownOutcome
            | ProblemKind::Internal
    )
}
