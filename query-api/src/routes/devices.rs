use access::Caller;
use api::{DeviceItem, Devices, utc};
use axum::Json;
use message_store::DeviceRow;
use problem::{Path, Problem, Query};

use crate::{
    call::Call,
    deadline::Deadline,
    error::QueryError,
    openapi::Refusal,
    parameters::{CallTimeout, UserPath},
};

/// How many devices are shown at most.
const MAX_DEVICES: u32 = 100;

fn item(row: DeviceRow) -> DeviceItem {
    DeviceItem {
        device: row.device,
        class: row.class,
        name: row.name,
        token: row.token,
        seen_at: utc(row.seen_at),
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
    call: Call,
    caller: Caller,
    Path(UserPath { uid }): Path<UserPath>,
    Query(query): Query<CallTimeout>,
) -> Result<Json<Devices>, QueryError> {
    caller.may_read(uid)?;
    let read = async {
        let shard = call.store.layout().shard_of_user(uid);
        let mut tx = call.snapshot(shard).await?;
        tx.devices(uid, MAX_DEVICES).await
    };
    let rows = Deadline::in_time(query.timeout_ms).bound(read).await;
    let rows = rows.map_err(QueryError::of_mysql)??;
    Ok(Json(Devices {
        items: rows.into_iter().map(item).collect(),
    }))
}
