use std::{collections::BTreeMap, sync::Arc, time::Duration};

use access::Caller;
use axum::{Json, extract::State};
use message_store::Sink;
use problem::{Path, Problem, Query};
use schemas::{DeviceClass, TableNumber, UserId};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use unread_store::{Expiry, UnreadView};
use utoipa::{IntoParams, ToSchema};

use crate::{
    after::{AsOf, RequiredWatermarks, Watermarks},
    deadline::Deadline,
    error::{LaggingStore, QueryError},
    parameters::{Device, TimeoutMs, UserPath},
    sink_watermarks,
    state::QueryApi,
};

/// On which class of device.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct UnreadQuery {
    /// `pc` or `mobile`.
    #[param(value_type = String, pattern = "^(pc|mobile)$", example = "pc")]
    device: Device,
    /// `<partition>:<offset>` of a 202: the answer reflects at least this event. May be repeated, up to 64 times.
    #[serde(default)]
    #[param(example = json!(["17:42"]))]
    after: Vec<String>,
    /// How long the call may take, milliseconds; 5000 where absent.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 30_000)]
    timeout_ms: Option<TimeoutMs>,
}

/// A user's unread messages on one class of device.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UnreadAnswer {
    /// The receiver.
    #[schema(value_type = String, example = "1000")]
    uid: UserId,
    /// The class.
    #[schema(value_type = String, example = "pc")]
    device: DeviceClass,
    /// How many, by sender; nobody is at zero.
    #[schema(value_type = BTreeMap<String, i64>, example = json!({"1001": 3}))]
    unread: BTreeMap<UserId, i64>,
    /// The sum of `unread`.
    #[schema(example = 3)]
    total: i64,
    /// Senders whose unread messages cannot be counted any more, because what was read last is no longer stored. Absent where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<String>>, example = json!(["1002"]))]
    unknown: Vec<UserId>,
    /// With `after=`: how far the store had come, by partition.
    #[serde(skip_serializing_if = "AsOf::is_empty")]
    #[schema(value_type = Option<Vec<String>>, example = json!(["17:45"]))]
    as_of: AsOf,
}

/// The result of reading Redis.
enum RedisRead {
    /// The counts, and the watermarks of Redis.
    Complete(Counts, Watermarks),
    /// The user has to be rebuilt first.
    Absent,
    /// Redis fails, with the reason.
    Failed(String),
}

struct Counts {
    by_sender: BTreeMap<UserId, i64>,
    unknown: Vec<UserId>,
}

/// If Redis hangs, this leaves time to read the contact rows.
const REDIS_TIMEOUT: Duration = Duration::from_secs(1);

/// Count a user's unread messages
///
/// Where Redis does not have the user, the counts are rebuilt first; where it is down, they come from MySQL. They are whole or not answered.
#[utoipa::path(
    get,
    path = "/v1/users/{uid}/unread",
    tag = "query",
    params(UserPath, UnreadQuery),
    responses(
        (status = 200, description = "The counts. Reading them renews the user's expiry.", body = UnreadAnswer),
        (status = 400, description = "A parameter is not as it should be.", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "Too many calls are under way, or too many of the caller's.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The counts are being rebuilt, or the stores are down.", body = Problem, content_type = "application/problem+json"),
        (status = 504, description = "The event of `after=` was not counted in time.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn get_unread(
    State(api): State<Arc<QueryApi>>,
    caller: Caller,
    Path(UserPath { uid }): Path<UserPath>,
    Query(query): Query<UnreadQuery>,
) -> Result<Json<UnreadAnswer>, QueryError> {
    caller.may_read(uid)?;
    let deadline = Deadline::in_time(query.timeout_ms);
    let required = RequiredWatermarks::parse(&query.after, api.epoch.get())?;
    let Device(device) = query.device;
    let (counts, watermarks) = count(&api, uid, device, &required, deadline).await?;
    Ok(Json(UnreadAnswer {
        uid,
        device,
        total: counts.by_sender.values().sum(),
        unread: counts.by_sender,
        unknown: counts.unknown,
        as_of: watermarks.into(),
    }))
}

async fn count(
    api: &QueryApi,
    uid: UserId,
    device: DeviceClass,
    required: &RequiredWatermarks,
    deadline: Deadline,
) -> Result<(Counts, Watermarks), QueryError> {
    loop {
        let attempt = || from_redis(api, uid, device, required);
        match api.poll(deadline, attempt).await? {
            RedisRead::Complete(counts, watermarks) => {
                api.redis_fallback.redis_responded();
                return Ok((counts, watermarks));
            }
            // Afterwards Redis is read again: the user may have been dropped by then.
            RedisRead::Absent => api.rebuilder.rebuild(&[uid], deadline.at()).await?,
            RedisRead::Failed(reason) => {
                api.redis_fallback.redis_failed(&reason);
                return from_contacts(api, uid, device, required, deadline).await;
            }
        }
    }
}

async fn from_redis(
    api: &QueryApi,
    uid: UserId,
    device: DeviceClass,
    required: &RequiredWatermarks,
) -> Result<RedisRead, QueryError> {
    let positions = required.to_vec();
    let attempt = async {
        let redis = api.redis.get().await?;
        let read = redis.read_unread_after(uid, device, Expiry::Renew, &positions);
        read.await
    };
    let read = match timeout(REDIS_TIMEOUT, attempt).await {
        Ok(Ok(read)) => read,
        Ok(Err(error)) => return Ok(RedisRead::Failed(error.to_string())),
        Err(_elapsed) => return Ok(RedisRead::Failed("redis does not respond".to_owned())),
    };
    let watermarks: Watermarks = read
        .positions
        .into_iter()
        .map(|(partition, stored)| (partition, stored.position.watermark))
        .collect();
    sink_watermarks::expect_reached(LaggingStore::Redis, required, &watermarks)?;
    Ok(Counts::of(read.view).map_or(RedisRead::Absent, |counts| {
        RedisRead::Complete(counts, watermarks)
    }))
}

/// Reads the counts from the contact rows, once these contain all events on the log and those of `after=`, which may not be on the log
/// yet.
async fn from_contacts(
    api: &QueryApi,
    uid: UserId,
    device: DeviceClass,
    required: &RequiredWatermarks,
    deadline: Deadline,
) -> Result<(Counts, Watermarks), QueryError> {
    let watermarks = api
        .poll(deadline, || contact_watermarks(api, uid, required))
        .await?;
    let counts = api.rebuilder.contact_counts(uid, deadline.at()).await?;
    Counts::of(counts.unread(device))
        .map(|counts| (counts, watermarks))
        .ok_or_else(|| {
            QueryError::Defect("counts from contact rows are always complete".to_owned())
        })
}

async fn contact_watermarks(
    api: &QueryApi,
    uid: UserId,
    required: &RequiredWatermarks,
) -> Result<Watermarks, QueryError> {
    let shard = api.store.layout().shard_of(TableNumber::of_user(uid));
    let mut tx = api.store.snapshot(shard).await?;
    sink_watermarks::reached(&mut tx, Sink::Contacts, &api.events_topic, required).await
}

impl Counts {
    /// `None` where the view is not complete.
    fn of(view: UnreadView) -> Option<Self> {
        match view {
            UnreadView::Complete { counts, unknown } => Some(Self {
                by_sender: counts,
                unknown,
            }),
            UnreadView::Rebuilding | UnreadView::Absent => None,
        }
    }
}
