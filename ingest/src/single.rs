//! A single post: acquire its bytes, read, check, append, wait for the delivery report.

use access::Caller;
use axum::{
    extract::Request,
    http::{HeaderMap, HeaderValue},
    response::Response,
};
use event_log::DeliveryFailure;
use problem::Problem;
use schemas::{InboundPosition, proto::ingest_event::Event};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use crate::{
    body::RequestBody,
    byte_budget::cost_bytes,
    fair_pool::{Full, PoolPermit},
    inbound::{InboundRecord, SingleDelivery},
    media::SingleEncoding,
    post::Post,
    protobuf,
    responses::{accepted, not_appended, over_capacity, unknown_outcome},
    state::Ingest,
};

/// The header with the id of a single command.
pub(crate) const IDEMPOTENCY_KEY: &str = "Idempotency-Key";

/// Responds to one post, whose body `parse` reads.
pub(crate) async fn post(
    ingest: &Ingest,
    caller: &Caller,
    request: Request,
    parse: impl FnOnce(SingleEncoding, &[u8]) -> Result<Post, Problem>,
) -> Result<Response, Problem> {
    let deadline = Instant::now() + ingest.config.request_deadline();
    let (parts, body) = request.into_parts();
    let mut body = RequestBody::new(&parts.headers, body);
    let result: Result<Response, Problem> = async {
        ingest.access.charge_event(caller)?;
        let encoding = SingleEncoding::of(&parts.headers)?;
        let (bytes, permit) = read_body(ingest, caller, &mut body, deadline).await?;
        ingest.charge_size(caller, bytes.len())?;
        let mut post = parse(encoding, &bytes)?.identified(idempotency_key(&parts.headers)?)?;
        ingest.admit(caller, &mut post).await?;
        let id = post.retry_id();
        let gid = post.created_group();
        let at = append(ingest, post, permit, deadline).await?;
        Ok(accepted(at, id, gid, encoding))
    }
    .await;
    if let Err(problem) = &result {
        ingest.metrics.rejected(problem.kind);
        body.discard();
    }
    result
}

/// The id in the header `Idempotency-Key`, as it is there, with the header's name.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<(&'static str, String)>, Problem> {
    let mut keys = headers.get_all(IDEMPOTENCY_KEY).into_iter();
    match (keys.next().map(HeaderValue::to_str), keys.next()) {
        (None, _) => Ok(None),
        (Some(Ok(key)), None) => Ok(Some((IDEMPOTENCY_KEY, key.to_owned()))),
        (Some(Err(_)), _) => Err(Problem::invalid_field(
            IDEMPOTENCY_KEY,
            "has other characters",
            "1 to 64 visible characters of ASCII",
        )),
        (Some(_), Some(_)) => Err(Problem::invalid_field(
            IDEMPOTENCY_KEY,
            "is there twice",
            "one",
        )),
    }
}

/// Reads the body, for which bytes are acquired as they arrive.
async fn read_body(
    ingest: &Ingest,
    caller: &Caller,
    body: &mut RequestBody,
    deadline: Instant,
) -> Result<(bytes::Bytes, PoolPermit), Problem> {
    let limit = ingest.config.max_body_bytes;
    body.check_declared(limit)?;
    let permit = ingest.singles.begin(caller, cost_bytes(0) as usize);
    let mut permit = permit.map_err(over_capacity)?;
    let read = timeout_at(deadline, body.read(limit, &mut permit)).await;
    let bytes = read.map_err(|_elapsed| {
        let allowed_s = ingest.config.request_deadline().as_secs_f64();
        Problem::request_timeout(format!("the request was not complete after {allowed_s} s"))
    })??;
    Ok((bytes, permit))
}

/// Posts an event that is in memory.
pub(crate) async fn post_event(
    ingest: &Ingest,
    caller: &Caller,
    event: Event,
) -> Result<InboundPosition, Problem> {
    let deadline = Instant::now() + ingest.config.request_deadline();
    let posted: Result<InboundPosition, Problem> = async {
        let bytes = event.encoded_len();
        ingest.access.charge_event(caller)?;
        ingest.charge_size(caller, bytes)?;
        let permit = ingest
            .singles
            .try_acquire(caller, cost_bytes(bytes) as usize);
        let permit = permit.map_err(over_capacity)?;
        let mut post = protobuf::checked(event, ingest.config.max_msg_bytes)
            .1?
            .identified(None)?;
        ingest.admit(caller, &mut post).await?;
        append(ingest, post, permit, deadline).await
    }
    .await;
    posted.inspect_err(|problem| ingest.metrics.rejected(problem.kind))
}

async fn append(
    ingest: &Ingest,
    post: Post,
    permit: PoolPermit,
    deadline: Instant,
) -> Result<InboundPosition, Problem> {
    let id = post.retry_id();
    let record = InboundRecord::from(post);
    let (report, reported) = oneshot::channel();
    let started = Instant::now();
    ingest
        .inbound
        .append_single(&record, SingleDelivery { report, permit })
        .map_err(|_full| over_capacity(Full::Server))?;
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
            Err(unknown_outcome(record.kind, id))
        }
        Ok(Err(_)) | Err(_) => Err(unknown_outcome(record.kind, id)),
    }
}
