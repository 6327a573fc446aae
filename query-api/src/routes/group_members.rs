use access::Caller;
use api::{GroupMembersPage, MemberItem};
use axum::Json;
use message_store::{GroupHead, GroupMemberRow};
use problem::{Path, Problem, Query};
use schemas::{GroupId, UserId};

use crate::{
    after::{AsOf, RequiredWatermarks, Watermarks},
    call::Call,
    deadline::Deadline,
    error::QueryError,
    openapi::Refusal,
    parameters::{GroupPath, Limit, query_parameters},
    view::open_group,
};

query_parameters! {
    /// Which members.
    struct GroupMembersQuery, uid = "1000", after = "17:42" {
        /// How many at most; 50 where absent.
        #[param(value_type = Option<u8>, minimum = 1, maximum = 200)]
        limit: Option<Limit>,
        /// `next` of the page before, as it came.
        #[param(value_type = Option<String>)]
        cursor: Option<UserId>,
    }
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
    call: Call,
    caller: Caller,
    Path(GroupPath { gid }): Path<GroupPath>,
    Query(query): Query<GroupMembersQuery>,
) -> Result<Json<GroupMembersPage>, QueryError> {
    let uid = query.uid;
    caller.may_read(uid)?;
    let deadline = Deadline::in_time(query.timeout_ms);
    let required = RequiredWatermarks::parse(&query.after, call.epoch.get())?
        .restrict_to(|p| p == gid.partition());
    let limit = query.limit.unwrap_or_default();
    // One row more than the page shows tells whether there is a next page.
    let attempt = || members(&call, gid, &query, limit.and_one(), &required);
    let (mut rows, watermarks) = call.poll(deadline, attempt).await?;
    let next = limit.cut(&mut rows).map(|row| row.uid);
    Ok(Json(GroupMembersPage {
        next,
        items: rows.iter().filter_map(item).collect(),
        as_of: AsOf::from(watermarks).positions(),
    }))
}

async fn members(
    call: &Call,
    gid: GroupId,
    query: &GroupMembersQuery,
    count: u32,
    required: &RequiredWatermarks,
) -> Result<(Vec<GroupMemberRow>, Watermarks), QueryError> {
    let (mut tx, _head, watermarks) = open_group(call, gid, query.uid, required).await?;
    let rows = tx.group_members(gid, query.cursor, count).await?;
    Ok((rows, watermarks))
}

pub(super) fn asker(uid: UserId, head: &GroupHead) -> MemberItem {
    MemberItem {
        uid,
        role: head.role,
        muted: head.muted,
        join_mid: head.join_mid,
    }
}

/// `None` for a user who has left.
fn item(row: &GroupMemberRow) -> Option<MemberItem> {
    Some(MemberItem {
        uid: row.uid,
        role: row.role?,
        muted: row.muted,
        join_mid: row.join_mid,
    })
}
