use std::sync::Arc;

use access::Caller;
use axum::{Json, extract::State};
use message_store::{GroupHead, StoredChange};
use problem::{Path, Problem, Query};
use schemas::{Chg, GroupId, UserId};
use serde::Deserialize;
use utoipa::IntoParams;

use super::changes::{ChangeItem, ChangesPage};
use crate::{
    after::{AsOf, RequiredWatermarks, Watermarks},
    deadline::Deadline,
    error::QueryError,
    group_view::{self, GroupView},
    parameters::{ChgBound, GroupPath, Limit, TimeoutMs},
    state::QueryApi,
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
    /// How many at most; 50 where absent.
    #[param(value_type = Option<u8>, minimum = 1, maximum = 200)]
    limit: Option<Limit>,
    /// `<partition>:<offset>` of a 202: the answer reflects at least this event. May be repeated, up to 64 times.
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
    State(api): State<Arc<QueryApi>>,
    caller: Caller,
    Path(GroupPath { gid }): Path<GroupPath>,
    Query(query): Query<GroupChangesQuery>,
) -> Result<Json<ChangesPage>, QueryError> {
    let uid = query.uid;
    caller.may_read(uid)?;
    let deadline = Deadline::in_time(query.timeout_ms);
    let required = RequiredWatermarks::parse(&query.after, api.epoch.get())?
        .restrict_to(|p| p == gid.partition());
    let limit = query.limit.unwrap_or_default();

    let attempt = || changes(&api, gid, &query, limit, &required);
    let (mut rows, head, watermarks) = api.poll(deadline, attempt).await?;
    let mut as_of = AsOf::from(watermarks);
    let more = rows.len() > limit.get();
    rows.truncate(limit.get());
    let next = rows.last().filter(|_| more).map(|row| row.chg);
    rows.retain(|row| row.mid > head.unseen_mid());
    if rows.iter().any(|row| row.msg.is_some()) {
        let attempt = || view(&api, uid, &rows, &head, &required);
        let (view, watermarks) = api.poll(deadline, attempt).await?;
        as_of = as_of.and(watermarks);
        for row in rows.iter_mut().filter(|row| !view.shows(&head, row.mid)) {
            row.msg = None;
        }
    }
    Ok(Json(ChangesPage {
        items: rows.into_iter().map(ChangeItem::from).collect(),
        next: next.map(|chg| format!("after_chg={chg}")),
        as_of,
    }))
}

/// Reads one row more than the page shows, which tells whether there is a next page.
async fn changes(
    api: &QueryApi,
    gid: GroupId,
    query: &GroupChangesQuery,
    limit: Limit,
    required: &RequiredWatermarks,
) -> Result<(Vec<StoredChange>, GroupHead, Watermarks), QueryError> {
    let (mut tx, head, watermarks) = group_view::open(api, gid, query.uid, required).await?;
    let after = query.after_chg.map_or(Chg::ZERO, |ChgBound(chg)| chg);
    let of_user = Some(query.uid);
    let rows = tx
        .group_changes_after(gid, of_user, after, limit.and_one())
        .await?;
    Ok((rows, head, watermarks))
}

/// What the user sees of the messages whose texts are in these changes.
async fn view(
    api: &QueryApi,
    uid: UserId,
    rows: &[StoredChange],
    head: &GroupHead,
    required: &RequiredWatermarks,
) -> Result<(GroupView, Watermarks), QueryError> {
    let (mut view, watermarks) = GroupView::read(api, head.gid, uid, required).await?;
    let edited = rows.iter().filter(|row| row.msg.is_some());
    view.read_hidden(api, head, edited.map(|row| row.mid))
        .await?;
    Ok((view, watermarks))
}
