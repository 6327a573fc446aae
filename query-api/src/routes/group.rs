use access::Caller;
use axum::Json;
use problem::{Path, Problem, Query};
use schemas::{GroupId, UserId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    after::{AsOf, RequiredWatermarks},
    api::Api,
    deadline::Deadline,
    error::QueryError,
    parameters::{GroupPath, TimeoutMs},
    routes::group_members::MemberItem,
    view::open_group,
};

/// Who asks.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct GroupQuery {
    /// The member who asks.
    #[param(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "1000")]
    uid: UserId,
    /// `<partition>:<offset>` of a 202: the answer reflects at least this event; or a device's token, for what that covers. May be repeated, up to 64
    /// times.
    #[serde(default)]
    #[param(example = json!(["17:42"]))]
    after: Vec<String>,
    /// How long the call may take, milliseconds; 5000 where absent.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 30_000)]
    timeout_ms: Option<TimeoutMs>,
}

/// A group.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GroupAnswer {
    /// The group.
    #[schema(value_type = String, example = "5000")]
    gid: GroupId,
    /// Its name.
    #[schema(example = "Lunch")]
    name: String,
    /// Its owner.
    #[schema(value_type = String, example = "1000")]
    owner: UserId,
    /// Anybody may join.
    open: bool,
    /// Members see what was sent before they joined.
    whole_history: bool,
    /// Only admins and the owner send.
    muted: bool,
    /// It has ended. Who was a member then reads it on.
    dissolved: bool,
    /// How many members there are; 0 once it is dissolved.
    #[schema(minimum = 0, example = 3)]
    member_count: i64,
    /// The number of its newest message; 0 where there is none.
    #[schema(minimum = 0, example = 9)]
    last_mid: i64,
    /// The number of its last change of a message; 0 where there is none.
    #[schema(minimum = 0, example = 1)]
    chg: i64,
    /// What the group has of the user who asks.
    member: MemberItem,
    /// With `after=`: how far the store had come, by partition.
    #[serde(skip_serializing_if = "AsOf::is_empty")]
    #[schema(value_type = Option<Vec<String>>, example = json!(["17:45"]))]
    as_of: AsOf,
}

/// Read a group
///
/// Its settings, and what it has of the user who asks.
#[utoipa::path(
    get,
    path = "/v1/groups/{gid}",
    tag = "query",
    params(GroupPath, GroupQuery),
    responses(
        (status = 200, description = "The group.", body = GroupAnswer),
        (status = 400, description = "A parameter is not as it should be.", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such group, or the user is no member of it.", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "Too many calls are under way, or too many of the caller's.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "MySQL does not answer.", body = Problem, content_type = "application/problem+json"),
        (status = 504, description = "The event of `after=` was not stored in time.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn get_group(
    api: Api,
    caller: Caller,
    Path(GroupPath { gid }): Path<GroupPath>,
    Query(query): Query<GroupQuery>,
) -> Result<Json<GroupAnswer>, QueryError> {
    let uid = query.uid;
    caller.may_read(uid)?;
    let deadline = Deadline::in_time(query.timeout_ms);
    let required = RequiredWatermarks::parse(&query.after, api.epoch.get())?
        .restrict_to(|p| p == gid.partition());
    let attempt = || open_group(&api, gid, uid, &required);
    let (_tx, head, watermarks) = api.poll(deadline, attempt).await?;
    let (last_mid, chg) = (head.last_mid().get(), head.chg.get());
    let member = MemberItem::of_asker(uid, &head);
    let settings = head.settings;
    Ok(Json(GroupAnswer {
        gid,
        name: settings.name,
        owner: settings.owner,
        open: settings.open,
        whole_history: settings.whole_history,
        muted: settings.muted,
        dissolved: settings.dissolved,
        member_count: head.member_count,
        last_mid,
        chg,
        member,
        as_of: watermarks.into(),
    }))
}
