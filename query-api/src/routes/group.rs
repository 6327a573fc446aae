use access::Caller;
use api::GroupAnswer;
use axum::Json;
use problem::{Path, Problem, Query};

use crate::{
    after::{AsOf, RequiredWatermarks},
    call::Call,
    deadline::Deadline,
    error::QueryError,
    openapi::Refusal,
    parameters::{GroupPath, query_parameters},
    routes::group_members,
    view::open_group,
};

query_parameters! {
    /// Who asks.
    struct GroupQuery, uid = "1000", after = "17:42" {}
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
    call: Call,
    caller: Caller,
    Path(GroupPath { gid }): Path<GroupPath>,
    Query(query): Query<GroupQuery>,
) -> Result<Json<GroupAnswer>, QueryError> {
    let uid = query.uid;
    caller.may_read(uid)?;
    let deadline = Deadline::in_time(query.timeout_ms);
    let required = RequiredWatermarks::parse(&query.after, call.epoch.get())?
        .restrict_to(|p| p == gid.partition());
    let attempt = || open_group(&call, gid, uid, &required);
    let (_tx, head, watermarks) = call.poll(deadline, attempt).await?;
    let (last_mid, change_seq) = (head.last_mid(), head.change_seq);
    let member = group_members::asker(uid, &head);
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
        change_seq,
        member,
        as_of: AsOf::from(watermarks).positions(),
    }))
}
