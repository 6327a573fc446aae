use access::Caller;
use axum::Json;
use problem::{Path, Problem, Query};
use schemas::{GroupId, UserId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    after::{AsOf, RequiredWatermarks},
    api::Api,
    deadline::Deadline,
    error::QueryError,
    openapi::Refusal,
    parameters::{GroupPath, query_parameters},
    routes::group_members::MemberItem,
    view::open_group,
};

query_parameters! {
    /// Who asks.
    struct GroupQuery, after = "17:42" {
        /// The member who asks.
        #[param(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "1000")]
        uid: UserId,
    }
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
        Refusal,
        (status = 404, description = "There is no such group, or the user is no member of it.", body = Problem, content_type = "application/problem+json"),
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
