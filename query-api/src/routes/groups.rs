use access::Caller;
use api::{GroupItem, GroupsPage};
use axum::Json;
use message_store::{Membership, Sink};
use problem::{Path, Query};
use schemas::{EventPosition, GroupId, UserId};

use crate::{
    after::{AsOf, RequiredWatermarks, Watermarks},
    call::Call,
    deadline::Deadline,
    error::QueryError,
    listed_group::{self, ListedGroup},
    openapi::Refusal,
    parameters::{GroupsLimit, UserPath, query_parameters},
    sink_watermarks,
};

query_parameters! {
    /// Which groups.
    struct GroupsQuery, after = "17:42" {
        /// How many at most; 100 where absent.
        #[param(value_type = Option<u16>, minimum = 1, maximum = 500)]
        limit: Option<GroupsLimit>,
        /// `next` of the page before, as it came.
        #[param(value_type = Option<String>)]
        cursor: Option<GroupId>,
    }
}

/// List a user's groups
///
/// Read positions are those of the membership rows, which are about a second behind.
#[utoipa::path(
    get,
    path = "/v1/users/{uid}/groups",
    tag = "query",
    params(UserPath, GroupsQuery),
    responses(
        (status = 200, description = "The groups; none is not an error.", body = GroupsPage),
        Refusal,
    ),
)]
pub(crate) async fn get_groups(
    call: Call,
    caller: Caller,
    Path(UserPath { uid }): Path<UserPath>,
    Query(query): Query<GroupsQuery>,
) -> Result<Json<GroupsPage>, QueryError> {
    caller.may_read(uid)?;
    let deadline = Deadline::in_time(query.timeout_ms);
    let limit = query.limit.unwrap_or_default();
    let required = RequiredWatermarks::parse(&query.after, call.epoch.get())?;
    let attempt = || memberships(&call, uid, query.cursor, limit, &required);
    let (mut rows, watermarks) = call.poll(deadline, attempt).await?;
    let next = limit.cut(&mut rows).map(|row| row.gid);
    let as_of = AsOf::from(watermarks);
    let (mut groups, as_of) =
        listed_group::read(&call, uid, rows, &required, deadline, as_of).await?;
    listed_group::read_hidden(&call, uid, &mut groups, deadline).await?;
    Ok(Json(GroupsPage {
        items: groups.into_iter().map(item).collect(),
        next,
        as_of: as_of.positions(),
    }))
}

/// Reads one row more than the page shows, which tells whether there is a next page.
async fn memberships(
    call: &Call,
    uid: UserId,
    after: Option<GroupId>,
    limit: GroupsLimit,
    required: &RequiredWatermarks,
) -> Result<(Vec<Membership>, Watermarks), QueryError> {
    let shard = call.store.layout().shard_of_user(uid);
    let (mut tx, watermarks) =
        sink_watermarks::snapshot(call, shard, Sink::Contacts, required).await?;
    let rows = tx.memberships(uid, after, limit.and_one()).await?;
    Ok((rows, watermarks))
}

/// A group, as answers have it.
pub(super) fn item(group: ListedGroup) -> GroupItem {
    let last = group.last();
    let (unread, read_mid) = (group.unread(), group.read_mids());
    let (own_pos, event_offset) = (group.membership.own_pos, group.membership.event_offset);
    let (event_offset, head) = (event_offset.max(group.head.event_offset), group.head);
    GroupItem {
        gid: head.gid,
        last,
        last_mid: head.last_mid(),
        role: head.role,
        muted: head.muted,
        dissolved: head.settings.dissolved,
        member_count: head.member_count,
        whole_history: head.settings.whole_history,
        join_mid: head.join_mid,
        change_seq: head.change_seq,
        own_pos,
        at: EventPosition {
            partition: head.gid.partition(),
            offset: event_offset,
        },
        name: head.settings.name,
        unread,
        read_mid,
    }
}
