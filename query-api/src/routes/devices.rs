use access::Caller;
use axum::Json;
use message_store::DeviceRow;
use problem::{Path, Problem, Query};
use schemas::{DeviceClass, DeviceId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    api::Api,
    deadline::Deadline,
    error::QueryError,
    message_item::utc,
    parameters::{TimeoutMs, UserPath},
};

/// How many devices are shown at most.
const MAX_DEVICES: u32 = 100;

/// How long it may take.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DevicesQuery {
    /// How long the call may take, milliseconds; 5000 where absent.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 30_000)]
    timeout_ms: Option<TimeoutMs>,
}

/// A user's devices.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Devices {
    /// Those seen last, up to 100, the newest first.
    items: Vec<DeviceItem>,
}

/// A device.
#[derive(Debug, Serialize, ToSchema)]
struct DeviceItem {
    /// Its own id.
    #[schema(value_type = String, example = "phone-1")]
    device: DeviceId,
    /// `pc` or `mobile`.
    #[schema(value_type = String, example = "mobile")]
    class: DeviceClass,
    /// What the user calls it; may be empty.
    #[schema(example = "Ann's phone")]
    name: String,
    /// Its newest token, with which a device that has lost its own goes on: `since` of a sync.
    #[schema(
        example = "AQAAAAABAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    )]
    token: String,
    /// When it had handled what its token covers, UTC.
    #[schema(example = "2025-11-21T08:00:00.123Z")]
    seen_at: String,
}

impl From<DeviceRow> for DeviceItem {
    fn from(row: DeviceRow) -> Self {
        Self {
            device: row.device,
            class: row.class,
            name: row.name,
            token: row.token,
            seen_at: utc(row.seen_at),
        }
    }
}

/// List a user's devices
///
/// Only the user himself reads them, and services. A gateway keeps them while a device is connected; one that was not seen for 30 days is forgotten.
#[utoipa::path(
    get,
    path = "/v1/users/{uid}/devices",
    tag = "query",
    params(UserPath, DevicesQuery),
    responses(
        (status = 200, description = "The devices; none is not an error.", body = Devices),
        (status = 400, description = "A parameter is not as it should be.", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "Too many calls are under way, or too many of the caller's.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "MySQL does not answer.", body = Problem, content_type = "application/problem+json"),
        (status = 504, description = "MySQL did not answer in time.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn get_devices(
    api: Api,
    caller: Caller,
    Path(UserPath { uid }): Path<UserPath>,
    Query(query): Query<DevicesQuery>,
) -> Result<Json<Devices>, QueryError> {
    caller.may_read(uid)?;
    let read = async {
        let shard = api.store.layout().shard_of_user(uid);
        let mut tx = api.snapshot(shard).await?;
        tx.devices(uid, MAX_DEVICES).await
    };
    let rows = Deadline::in_time(query.timeout_ms).bound(read).await;
    let rows = rows.map_err(QueryError::of_mysql)??;
    Ok(Json(Devices {
        items: rows.into_iter().map(DeviceItem::from).collect(),
    }))
}
