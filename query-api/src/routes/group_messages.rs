use std::collections::BTreeSet;

use access::Caller;
use api::MessagesPage;
use axum::Json;
use problem::{Path, Problem, Query};
use schemas::{GroupId, UserId};

use super::messages::{Bound, history, page_of, shown};
use crate::{
    after::{AsOf, RequiredWatermarks},
    call::Call,
    deadline::Deadline,
    error::QueryError,
    openapi::Refusal,
    parameters::{GroupPath, Limit, MidBound, Switch, query_parameters},
    profiles, sink_watermarks,
    view::View,
};

query_parameters! {
    /// Which messages. At most one of `before_mid` and `after_mid`; none of them is the newest page.
    struct GroupMessagesQuery, uid = "1000", after = "17:42" {
        /// Those below this number, newest first.
        #[param(value_type = Option<i64>, minimum = 0)]
        before_mid: Option<MidBound>,
        /// Those above this number, oldest first.
        #[param(value_type = Option<i64>, minimum = 0)]
        after_mid: Option<MidBound>,
        /// How many at most; 50 where absent.
        #[param(value_type = Option<u8>, minimum = 1, maximum = 200)]
        limit: Option<Limit>,
        /// Whether the answer has the profiles of the senders in it, as of now: `true` or `false`.
        #[serde(default)]
        #[param(value_type = Option<bool>)]
        profiles: Switch,
    }
}

/// Read the messages of a group
///
/// A page of its history. Members see what was sent since they joined, or all of it where the group's `whole_history` is set.
#[utoipa::path(
    get,
    path = "/v1/groups/{gid}/messages",
    tag = "query",
    params(GroupPath, GroupMessagesQuery),
    responses(
        (status = 200, description = "The messages; none is not an error.", body = MessagesPage),
        Refusal,
        (status = 404, description = "There is no such group, or the user is no member of it.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn get_group_messages(
    call: Call,
    caller: Caller,
    Path(GroupPath { gid }): Path<GroupPath>,
    Query(query): Query<GroupMessagesQuery>,
) -> Result<Json<MessagesPage>, QueryError> {
    let uid = query.uid;
    caller.may_read(uid)?;
    let deadline = Deadline::in_time(query.timeout_ms);
    let after = RequiredWatermarks::parse(&query.after, call.epoch.get())?;
    let required = after.clone().restrict_to(|p| p == gid.partition());
    let bound = Bound::of(query.before_mid, query.after_mid)?;
    let limit = query.limit.unwrap_or_default();
    let attempt = || page(&call, gid, uid, bound, limit, &required);
    let (page, as_of) = call.poll(deadline, attempt).await?;
    let senders: BTreeSet<UserId> = page.items.iter().map(|item| item.srcid).collect();
    let (profiles, as_of) =
        profiles::join(&call, query.profiles, senders, &after, deadline, as_of).await?;
    Ok(Json(MessagesPage {
        profiles,
        as_of: as_of.positions(),
        ..page
    }))
}

async fn page(
    call: &Call,
    gid: GroupId,
    uid: UserId,
    bound: Bound,
    limit: Limit,
    required: &RequiredWatermarks,
) -> Result<(MessagesPage, AsOf), QueryError> {
    let (mut view, own_watermarks) = View::read(call, uid, gid.into(), required).await?;
    sink_watermarks::expect_reached(view.store(), required, &own_watermarks)?;
    let (mut tx, head, watermarks) = view.open_group(call, gid, required).await?;
    view.restrict_to(&head);
    let (rows, next) = history(&mut tx, gid.into(), bound, limit, view.floor).await?;
    // Other reads need the connection of this snapshot.
    drop(tx);
    let items = shown(call, view, rows).await?;
    let as_of = AsOf::from(watermarks).and(own_watermarks);
    Ok((page_of(items, next, Some(head.unseen_mid())), as_of))
}
