use access::Caller;
use axum::Json;
use message_store::{GroupHead, GroupMemberRow};
use problem::{Path, Problem, Query};
use schemas::{GroupId, UserId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    after::{AsOf, RequiredWatermarks, Watermarks},
    api::Api,
    deadline::Deadline,
    error::QueryError,
    openapi::Refusal,
    parameters::{GroupPath, Limit, query_parameters},
    view::open_group,
};

query_parameters! {
    /// Which members.
    struct GroupMembersQuery, after = "17:42" {
        /// The member who asks.
        #[param(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "1000")]
        uid: UserId,
        /// How many at most; 50 where absent.
        #[param(value_type = Option<u8>, minimum = 1, maximum = 200)]
        limit: Option<Limit>,
        /// `next` of the page before, as it came.
        #[param(value_type = Option<String>)]
        cursor: Option<UserId>,
    }
}

/// Members of a group.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GroupMembersPage {
    /// The members, by uid.
    items: Vec<MemberItem>,
    /// `cursor` of the next page; null where nothing is left.
    #[schema(value_type = Option<String>, example = "1002")]
    next: Option<UserId>,
    /// With `after=`: how far the store had come, by partition.
    #[serde(skip_serializing_if = "AsOf::is_empty")]
    #[schema(value_type = Option<Vec<String>>, example = json!(["17:45"]))]
    as_of: AsOf,
}

/// A member of a group.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MemberItem {
    /// The user.
    #[schema(value_type = String, example = "1001")]
    uid: UserId,
    /// `member`, `admin` or `owner`.
    #[schema(value_type = String, example = "member")]
    role: &'static str,
    /// Does not send.
    muted: bool,
    /// The number of the newest message when the user joined; 0 where there was none.
    #[schema(minimum = 0, example = 3)]
    join_mid: i64,
}

/// List the members of a group
///
/// Those of a dissolved group are those whom it had in the end.
#[utoipa::path(
    get,
    path = "/v1/groups/{gid}/members",
    tag = "query",
    params(GroupPath, GroupMembersQuery),
    responses(
        (status = 200, description = "The members.", body = GroupMembersPage),
        Refusal,
        (status = 404, description = "There is no such group, or the user is no member of it.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn get_group_members(
    api: Api,
    caller: Caller,
    Path(GroupPath { gid }): Path<GroupPath>,
    Query(query): Query<GroupMembersQuery>,
) -> Result<Json<GroupMembersPage>, QueryError> {
    let uid = query.uid;
    caller.may_read(uid)?;
    let deadline = Deadline::in_time(query.timeout_ms);
    let required = RequiredWatermarks::parse(&query.after, api.epoch.get())?
        .restrict_to(|p| p == gid.partition());
    let limit = query.limit.unwrap_or_default();
    // One row more than the page shows tells whether there is a next page.
    let attempt = || members(&api, gid, &query, limit.and_one(), &required);
    let (mut rows, watermarks) = api.poll(deadline, attempt).await?;
    let more = rows.len() > limit.get();
    rows.truncate(limit.get());
    Ok(Json(GroupMembersPage {
        next: rows.last().filter(|_| more).map(|row| row.uid),
        items: rows.iter().filter_map(MemberItem::of_row).collect(),
        as_of: watermarks.into(),
    }))
}

async fn members(
    api: &Api,
    gid: GroupId,
    query: &GroupMembersQuery,
    count: u32,
    required: &RequiredWatermarks,
) -> Result<(Vec<GroupMemberRow>, Watermarks), QueryError> {
    let (mut tx, _head, watermarks) = open_group(api, gid, query.uid, required).await?;
    let rows = tx.group_members(gid, query.cursor, count).await?;
    Ok((rows, watermarks))
}

impl MemberItem {
    pub(super) fn of_asker(uid: UserId, head: &GroupHead) -> Self {
        Self {
            uid,
            role: head.role.as_str(),
            muted: head.muted,
            join_mid: head.join_mid.get(),
        }
    }

    /// `None` for who has left.
    fn of_row(row: &GroupMemberRow) -> Option<Self> {
        Some(Self {
            uid: row.uid,
            role: row.role?.as_str(),
            muted: row.muted,
            join_mid: row.join_mid.get(),
        })
    }
}
