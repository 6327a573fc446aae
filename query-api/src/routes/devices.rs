use access::Caller;
use axum::Json;
use message_store::DeviceRow;
use problem::{Path, Problem, Query};
use schemas::{DeviceClass, DeviceId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    api::Api,
    deadline::Deadline,
    error::QueryError,
    message_item::utc,
    openapi::Refusal,
    parameters::{CallTimeout, UserPath},
};

/// How many devices are shown at most.
const MAX_DEVICES: u32 = 100;

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
    params(UserPath, CallTimeout),
    responses(
        (status = 200, description = "The devices; none is not an error.", body = Devices),
        Refusal,
        (status = 504, description = "MySQL did not answer in time.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn get_devices(
    api: Api,
    caller: Caller,
    Path(UserPath { uid }): Path<UserPath>,
    Query(query): Query<CallTimeout>,
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
