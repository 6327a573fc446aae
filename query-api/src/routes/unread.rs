use std::time::Duration;

use access::Caller;
use api::UnreadAnswer;
use axum::Json;
use message_store::Sink;
use problem::{Path, Problem, Query};
use schemas::{DeviceClass, UserId};
use tokio::time::timeout;
use unread_store::{Connection, Expiry, UnreadView};

use crate::{
    after::{AsOf, RequiredWatermarks, Watermarks},
    call::Call,
    counts::{Counts, RedisRead},
    deadline::Deadline,
    error::{LaggingStore, QueryError},
    openapi::Refusal,
    parameters::{Device, UserPath, query_parameters},
    sink_watermarks,
    stalls::Projection,
};

query_parameters! {
    /// On which class of device.
    struct UnreadQuery, after = "17:42" {
        /// `pc` or `mobile`.
        #[param(value_type = String, pattern = "^(pc|mobile)$", example = "pc")]
        device: Device,
    }
}

/// If Redis hangs, this leaves time to read the contact rows.
const REDIS_TIMEOUT: Duration = Duration::from_secs(1);

/// Count a user's unread messages
///
/// Where Redis does not have the user, the counts are rebuilt first; where it is down, or takes nothing new although the log goes on, they come from MySQL. They
/// are whole or not answered.
/// Of 500 senders or more, the counts of two may be of different moments, all of them after the call.
#[utoipa::path(
    get,
    path = "/v1/users/{uid}/unread",
    tag = "query",
    params(UserPath, UnreadQuery),
    responses(
        (status = 200, description = "The counts. Reading them renews the user's expiry.", body = UnreadAnswer),
        Refusal,
        (status = 429, description = "Too many calls are under way, or too many of the caller's; or the counts of a user with very many senders, which are read for all calls together, were not read in time.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The counts are being rebuilt, or the stores are down.", body = Problem, content_type = "application/problem+json"),
        (status = 504, description = "The event of `after=` was not counted in time.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn get_unread(
    call: Call,
    caller: Caller,
    Path(UserPath { uid }): Path<UserPath>,
    Query(query): Query<UnreadQuery>,
) -> Result<Json<UnreadAnswer>, QueryError> {
    caller.may_read(uid)?;
    let deadline = Deadline::in_time(query.timeout_ms);
    let required = RequiredWatermarks::parse(&query.after, call.epoch.get())?;
    let Device(device) = query.device;
    let (counts, watermarks) = count(&call, uid, device, &required, deadline).await?;
    Ok(Json(UnreadAnswer {
        uid,
        device,
        total: counts.total,
        unread: counts.by_sender,
        unknown: counts.unknown,
        as_of: AsOf::from(watermarks).positions(),
    }))
}

async fn count(
    call: &Call,
    uid: UserId,
    device: DeviceClass,
    required: &RequiredWatermarks,
    deadline: Deadline,
) -> Result<(Counts, Watermarks), QueryError> {
    let slot = call.redis.store().index_of(uid);
    let shard = call.store.layout().shard_of_user(uid);
    let contacts = Projection::Rows(shard, Sink::Contacts);
    // If both projections are stalled, the cause is in one partition, and Redis is exact for all users whose messages are in other partitions.
    if call.stalls.is_stalled(Projection::Unread(slot)) && !call.stalls.is_stalled(contacts) {
        let reason = "its positions do not move while the log does";
        call.redis_fallback.redis_failed(slot, reason);
        return from_contacts(call, uid, device, required, deadline).await;
    }
    loop {
        let attempt = || from_redis(call, uid, device, required);
        let read = match call.poll(deadline, attempt).await? {
            RedisRead::Large => from_pages(call, uid, device, required, deadline).await?,
            read => read,
        };
        match read {
            RedisRead::Complete(counts, watermarks) => {
                call.redis_fallback.redis_responded(slot);
                return Ok((counts, watermarks));
            }
            // Redis has since come back with older data: the call waits again for what is missing.
            RedisRead::Large => {}
            // Afterwards Redis is read again: the user may have been dropped by then.
            RedisRead::Absent => {
                let users = [uid];
                let rebuilt = call.rebuilder.rebuild(&users, deadline.at());
                call.waiting(rebuilt).await?;
            }
            RedisRead::Failed(reason) => {
                call.redis_fallback.redis_failed(slot, &reason);
                return from_contacts(call, uid, device, required, deadline).await;
            }
        }
    }
}

async fn from_redis(
    call: &Call,
    uid: UserId,
    device: DeviceClass,
    required: &RequiredWatermarks,
) -> Result<RedisRead, QueryError> {
    let positions = &required.to_vec();
    let read = |redis: Connection| async move {
        let read = redis.read_unread_after(uid, device, Expiry::Renew, positions);
        read.await
    };
    let attempt = call.redis.call(call.redis.store().index_of(uid), read);
    let read = match timeout(REDIS_TIMEOUT, attempt).await {
        Ok(Ok(read)) => read,
        Ok(Err(error)) => return Ok(RedisRead::Failed(error.to_string())),
        Err(_elapsed) => return Ok(RedisRead::Failed("redis does not respond".to_owned())),
    };
    let watermarks: Watermarks = read
        .positions
        .into_iter()
        .map(|(partition, stored)| (partition, stored.position))
        .collect();
    sink_watermarks::expect_reached(LaggingStore::Redis, required, &watermarks)?;
    Ok(match read.view {
        UnreadView::Complete { counts, unknown } => {
            RedisRead::Complete(Counts::new(&counts, unknown)?, watermarks)
        }
        UnreadView::Large => RedisRead::Large,
        UnreadView::Rebuilding | UnreadView::Absent => RedisRead::Absent,
    })
}

/// Reads a large user together with other calls; [`RedisRead::Large`] if the watermarks have not reached `required`.
async fn from_pages(
    call: &Call,
    uid: UserId,
    device: DeviceClass,
    required: &RequiredWatermarks,
    deadline: Deadline,
) -> Result<RedisRead, QueryError> {
    let read = call.large_reads.read(uid, device, deadline);
    let read = call.waiting(read).await?;
    let RedisRead::Complete(counts, watermarks) = read else {
        return Ok(read);
    };
    if required.missing_in(&watermarks).is_empty() {
        let watermarks = watermarks.restrict_to(required);
        return Ok(RedisRead::Complete(counts, watermarks));
    }
    Ok(RedisRead::Large)
}

/// Reads the counts from the contact rows, once these contain all events on the log and those of `after=`, which may not be on the log
/// yet.
async fn from_contacts(
    call: &Call,
    uid: UserId,
    device: DeviceClass,
    required: &RequiredWatermarks,
    deadline: Deadline,
) -> Result<(Counts, Watermarks), QueryError> {
    let watermarks = call
        .poll(deadline, || contact_watermarks(call, uid, required))
        .await?;
    // The read of the contact rows counts against the user's share of connections.
    let shard = call.store.layout().shard_of_user(uid);
    let _place = deadline.bound(call.connection(shard)).await?;
    let counts = call.rebuilder.contact_counts(uid, deadline.at());
    let counts = call.waiting(counts).await?;
    match counts.unread(device) {
        UnreadView::Complete { counts, unknown } => {
            Ok((Counts::new(&counts, unknown)?, watermarks))
        }
        _ => Err(QueryError::Defect(
            "counts from contact rows are always complete".to_owned(),
        )),
    }
}

async fn contact_watermarks(
    call: &Call,
    uid: UserId,
    required: &RequiredWatermarks,
) -> Result<Watermarks, QueryError> {
    let shard = call.store.layout().shard_of_user(uid);
    let (_, watermarks) = sink_watermarks::snapshot(call, shard, Sink::Contacts, required).await?;
    Ok(watermarks)
}
