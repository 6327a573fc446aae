//! A device's sends and reads, posted as ingest posts those of HTTP calls.

use std::sync::Arc;

use api::{ReadFrame, SendFrame, ServerFrame};
use problem::{Problem, ProblemKind};
use schemas::{
    InboundPosition,
    command::{Command, Malformed},
};

use super::Peer;
use crate::{
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
    let (reference, client_msg_id) = (frame.reference.0.clone(), frame.client_msg_id.clone());
    if connection.sends_under_way() >= MAX_SENDS {
        let refused = ServerFrame::Refused {
            reference: reference.into(),
            reason: "too-many-under-way".into(),
            detail: "what became of so many sends is not known yet; send it again when some are answered"
                .into(),
            retry: true,
        };
        return connection.push_frame(&refused);
    }
    let to = match frame.recipient() {
        Ok(to) => to,
        Err(wrong) => return connection.push_frame(&invalid(&reference, &said(&wrong))),
    };
    let partition = to.conversation_with(peer.uid).partition();
    let decided_before = gateway.hub().decided(partition);
    let command = frame.into_command(peer.uid, to);
    let Some(at) = post(gateway, peer, connection, command, &reference).await else {
        return;
    };
    gateway.hub().track(PostedSend {
        at,
        connection: Arc::clone(connection),
        client_msg_id: Some(client_msg_id),
        reference,
        to,
        decided_before,
    });
}

/// Posts a read-ack on the device's class.
pub(super) async fn read(
    gateway: &Gateway,
    peer: &Peer,
    connection: &Connection,
    frame: ReadFrame,
) {
    let reference = &frame.reference.0;
    match frame.command(peer.uid, connection.device().class) {
        Ok(command) => {
            post(gateway, peer, connection, command, reference).await;
        }
        Err(wrong) => connection.push_frame(&invalid(reference, &said(&wrong))),
    }
}

/// A member that is wrong, in words for the developer of the device.
pub(super) fn said(wrong: &Malformed) -> String {
    format!("{} {}", wrong.field, wrong.problem)
}

/// A send or a read with a member that is wrong.
pub(super) fn invalid<'a>(reference: &'a str, detail: &'a str) -> ServerFrame<'a> {
    ServerFrame::Refused {
        reference: reference.into(),
        reason: ProblemKind::InvalidField.name().into(),
        detail: detail.into(),
        retry: false,
    }
}

async fn post(
    gateway: &Gateway,
    peer: &Peer,
    connection: &Connection,
    command: Command,
    reference: &str,
) -> Option<InboundPosition> {
    // Ingest would name a field that no frame has.
    let posted = match peer.caller.may_send_as(peer.uid, "uid") {
        Ok(()) => gateway.poster.post(&peer.caller, command).await,
        Err(problem) => Err(problem),
    };
    match posted {
        Ok(at) => {
            let reference = reference.into();
            let accepted = ServerFrame::Accepted { reference, at };
            connection.push_frame(&accepted);
            Some(at)
        }
        Err(problem) => {
            let refused = ServerFrame::Refused {
                reference: reference.into(),
                reason: problem.kind.name().into(),
                detail: problem.detail.as_str().into(),
                retry: may_be_repeated(&problem),
            };
            connection.push_frame(&refused);
            None
        }
    }
}

/// Whether the device may repeat its frame: the same may be accepted later, or may have been accepted if the outcome is unknown.
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
