//! What the two calls for one event have in common: take room, read, check, append, wait for the delivery report.

use access::Caller;
use axum::{body::BodyDataStream, extract::Request, response::Response};
use event_log::DeliveryFailure;
use problem::Problem;
use schemas::InboundPosition;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use crate::{
    accepted::{accepted, no_room, not_appended, unknown_outcome},
    body,
    inbound::{InboundRecord, SingleDelivery, cost_bytes},
    media::SingleEncoding,
    posted::{Place, Posted},
    service::{Ingest, SingleRoom},
};

/// Answers one post; `parse` reads its body.
pub(crate) async fn answer(
    ingest: &Ingest,
    caller: &Caller,
    request: Request,
    parse: impl FnOnce(SingleEncoding, &[u8]) -> Result<Posted, Problem>,
) -> Result<Response, Problem> {
    let deadline = Instant::now() + ingest.config.request_deadline();
    let (parts, body) = request.into_parts();
    let declared_bytes = body::declared_bytes(&body);
    let mut body = body.into_data_stream();
    let answering = async {
        ingest.access.charge_event(caller)?;
        let encoding = SingleEncoding::of(&parts.headers)?;
        let (bytes, room) = take_in(ingest, caller, &mut body, declared_bytes, deadline).await?;
        let posted = parse(encoding, &bytes)?;
        posted.check_author(caller, Place::Body)?;
        let client_msg_id = posted.client_msg_id().cloned();
        let at = append(ingest, posted, room, deadline).await?;
        Ok(accepted(at, client_msg_id, encoding))
    };
    let answered: Result<Response, Problem> = answering.await;
    if let Err(problem) = &answered {
        ingest.metrics.rejected(problem.kind);
        tokio::spawn(body::drain(body));
    }
    answered
}

/// Reads the body into room that was taken before: as much as the header declares, or the limit where it declares nothing. A body may take
/// its time, so nobody gets all of the room by declaring what does not come.
async fn take_in(
    ingest: &Ingest,
    caller: &Caller,
    body: &mut BodyDataStream,
    declared_bytes: Option<u64>,
    deadline: Instant,
) -> Result<(bytes::Bytes, SingleRoom), Problem> {
    let limit = ingest.config.max_body_bytes;
    let expected = match declared_bytes.map(u32::try_from) {
        None => limit,
        Some(Ok(declared)) if declared <= limit => declared,
        Some(_) => return Err(Problem::payload_too_large(limit.into())),
    };
    let room = ingest.room_of(caller, cost_bytes(expected as usize));
    let mut room = room.ok_or_else(no_room)?;
    let allowed = ingest.config.request_deadline();
    let bytes = body::read(body, limit, deadline, allowed).await?;
    // The record is no larger than the body that it came in, but for what the overhead covers.
    room.shrink_to(cost_bytes(bytes.len()));
    Ok((bytes, room))
}

async fn append(
    ingest: &Ingest,
    posted: Posted,
    room: SingleRoom,
    deadline: Instant,
) -> Result<InboundPosition, Problem> {
    let client_msg_id = posted.client_msg_id().map(ToString::to_string);
    let record = InboundRecord::from(posted);
    let (report, reported) = oneshot::channel();
    let started = Instant::now();
    ingest
        .inbound
        .append_single(&record, SingleDelivery { report, room })
        .map_err(|_full| no_room())?;
    match timeout_at(deadline, reported).await {
        Ok(Ok(Ok(offset))) => {
            ingest.metrics.single_delivered(started.elapsed());
            ingest.metrics.accepted(record.kind);
            Ok(InboundPosition {
                partition: record.partition,
                offset,
            })
        }
        Ok(Ok(Err(DeliveryFailure::Refused(reason)))) => {
            tracing::warn!(%reason, partition = %record.partition, "Kafka refused a record");
            Err(not_appended())
        }
        Ok(Ok(Err(DeliveryFailure::Unknown(reason)))) => {
            tracing::debug!(%reason, partition = %record.partition, "an append has an unknown outcome");
            Err(unknown_outcome(record.kind, client_msg_id))
        }
        Ok(Err(_dropped)) => Err(unknown_outcome(record.kind, client_msg_id)),
        Err(_elapsed) => Err(unknown_outcome(record.kind, client_msg_id)),
    }
}
