use access::Caller;
use axum::Json;
use problem::{Path, Problem, Query};
use schemas::UserId;
use serde::Deserialize;
use utoipa::IntoParams;

use super::changes::{self, ChangesPage, ChangesQuery};
use crate::{
    api::Api,
    error::QueryError,
    parameters::{ChgBound, GroupPath, Limit, OffsetBound, TimeoutMs},
};

/// Which changes.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct GroupChangesQuery {
    /// The member who asks.
    #[param(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "1000")]
    uid: UserId,
    /// Those above this number; all where absent.
    #[param(value_type = Option<i64>, minimum = 0)]
    after_chg: Option<ChgBound>,
    /// Of what the user has hidden and cleared without a number: what is behind this offset in `chat.events`; all where absent.
    #[param(value_type = Option<i64>, minimum = 0)]
    after_own_pos: Option<OffsetBound>,
    /// How many at most; 50 where absent.
    #[param(value_type = Option<u8>, minimum = 1, maximum = 200)]
    limit: Option<Limit>,
    /// `<partition>:<offset>` of a 202: the answer reflects at least this event; or a device's token, for what that covers. May be repeated, up to 64
    /// times.
    #[serde(default)]
    #[param(example = json!(["17:42"]))]
    after: Vec<String>,
    /// How long the call may take, milliseconds; 5000 where absent.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 30_000)]
    timeout_ms: Option<TimeoutMs>,
}

/// List what was changed in a group
///
/// As in a conversation with a user. Changes of messages from before the user joined are left out, unless the group shows its whole history.
#[utoipa::path(
    get,
    path = "/v1/groups/{gid}/changes",
    tag = "query",
    params(GroupPath, GroupChangesQuery),
    responses(
        (status = 200, description = "The changes; none is not an error.", body = ChangesPage),
        (status = 400, description = "A parameter is not as it should be.", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such group, or the user is no member of it.", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "Too many calls are under way, or too many of the caller's.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "MySQL does not answer.", body = Problem, content_type = "application/problem+json"),
        (status = 504, description = "The event of `after=` was not stored in time.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn get_group_changes(
    api: Api,
    caller: Caller,
    Path(GroupPath { gid }): Path<GroupPath>,
    Query(query): Query<GroupChangesQuery>,
) -> Result<Json<ChangesPage>, QueryError> {
    caller.may_read(query.uid)?;
    let of_conversation = ChangesQuery {
        after_chg: query.after_chg,
        after_own_pos: query.after_own_pos,
        limit: query.limit,
        after: query.after,
        timeout_ms: query.timeout_ms,
    };
    changes::page(&api, query.uid, gid.into(), of_conversation).await
}
