use access::Caller;
use axum::Json;
use message_store::{Membership, Sink};
use problem::{Path, Query};
use schemas::{GroupId, Mid, UserId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    after::{AsOf, RequiredWatermarks, Watermarks},
    api::Api,
    by_class::ByClass,
    deadline::Deadline,
    error::QueryError,
    listed_group::{self, ListedGroup},
    message_item::MessageItem,
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

/// A part of a user's groups.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GroupsPage {
    /// The groups, by gid. Those that the user has left are left out, so a page may hold fewer than `limit`; only `next` tells whether it is
    /// the last.
    items: Vec<GroupItem>,
    /// `cursor` of the next page; null where nothing is left.
    #[schema(value_type = Option<String>, example = "5000")]
    next: Option<GroupId>,
    /// With `after=`: how far the stores had come, by partition.
    #[serde(skip_serializing_if = "AsOf::is_empty")]
    #[schema(value_type = Option<Vec<String>>, example = json!(["17:45"]))]
    as_of: AsOf,
}

/// A group, as one of its members has it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GroupItem {
    /// The group.
    #[schema(value_type = String, example = "5000")]
    gid: GroupId,
    /// Its name.
    #[schema(example = "Lunch")]
    name: String,
    /// The user's role: `member`, `admin` or `owner`.
    #[schema(value_type = String, example = "member")]
    role: &'static str,
    /// Whether the user is muted, and does not send.
    muted: bool,
    /// It has ended. Who was a member then reads it on.
    dissolved: bool,
    /// How many members there are; 0 once it is dissolved.
    #[schema(minimum = 0, example = 3)]
    member_count: i64,
    /// Whether the user sees what was sent before joining.
    whole_history: bool,
    /// The number of the newest message when the user joined; 0 where there was none.
    #[schema(minimum = 0, example = 0)]
    join_mid: i64,
    /// Its newest message, with the first 200 characters of the text; null where there is none, the user has hidden or cleared it or joined
    /// later, or it was deleted.
    last: Option<MessageItem>,
    /// The number of its newest message; 0 where there is none.
    #[schema(minimum = 0, example = 9)]
    last_mid: i64,
    /// The number of its last change of a message; 0 where there is none.
    #[schema(minimum = 0, example = 1)]
    chg: i64,
    /// Where in `chat.events` the user has hidden or cleared something last that has no number; absent where that never was.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, example = 57)]
    own_pos: Option<i64>,
    /// Unread messages, by class of device.
    unread: ByClass<i64>,
    /// Up to where nothing counts as unread, by class of device: read, sent, cleared, or there before the user joined.
    read_mid: ByClass<i64>,
    /// Its last event, in `chat.events`.
    #[schema(example = "8:41")]
    at: String,
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
    api: Api,
    caller: Caller,
    Path(UserPath { uid }): Path<UserPath>,
    Query(query): Query<GroupsQuery>,
) -> Result<Json<GroupsPage>, QueryError> {
    caller.may_read(uid)?;
    let deadline = Deadline::in_time(query.timeout_ms);
    let limit = query.limit.unwrap_or_default();
    let required = RequiredWatermarks::parse(&query.after, api.epoch.get())?;
    let attempt = || memberships(&api, uid, query.cursor, limit, &required);
    let (mut rows, watermarks) = api.poll(deadline, attempt).await?;
    let more = rows.len() > limit.get();
    rows.truncate(limit.get());
    let next = rows.last().filter(|_| more).map(|row| row.gid);
    let as_of = AsOf::from(watermarks);
    let (mut groups, as_of) =
        listed_group::read(&api, uid, rows, &required, deadline, as_of).await?;
    listed_group::read_hidden(&api, uid, &mut groups, deadline).await?;
    Ok(Json(GroupsPage {
        items: groups.into_iter().map(GroupItem::from).collect(),
        next,
        as_of,
    }))
}

/// Reads one row more than the page shows, which tells whether there is a next page.
async fn memberships(
    api: &Api,
    uid: UserId,
    after: Option<GroupId>,
    limit: GroupsLimit,
    required: &RequiredWatermarks,
) -> Result<(Vec<Membership>, Watermarks), QueryError> {
    let shard = api.store.layout().shard_of_user(uid);
    let (mut tx, watermarks) =
        sink_watermarks::snapshot(api, shard, Sink::Contacts, required).await?;
    let rows = tx.memberships(uid, after, limit.and_one()).await?;
    Ok((rows, watermarks))
}

impl GroupItem {
    /// Who sent the newest message.
    pub(crate) fn sender(&self) -> Option<UserId> {
        self.last.as_ref().map(MessageItem::srcid)
    }
}

impl From<ListedGroup> for GroupItem {
    fn from(group: ListedGroup) -> Self {
        let last = group.last();
        let (unread, read_mid) = (group.unread(), group.read_mids());
        let (own_pos, pos) = (group.membership.own_pos, group.membership.pos);
        let (pos, head) = (pos.max(group.head.pos), group.head);
        Self {
            gid: head.gid,
            last,
            last_mid: head.last_mid().get(),
            role: head.role.as_str(),
            muted: head.muted,
            dissolved: head.settings.dissolved,
            member_count: head.member_count,
            whole_history: head.settings.whole_history,
            join_mid: head.join_mid.get(),
            chg: head.chg.get(),
            own_pos: Some(own_pos).filter(|pos| *pos > 0),
            at: format!("{}:{pos}", head.gid.partition()),
            name: head.settings.name,
            unread: unread.into(),
            read_mid: read_mid.map(Mid::get).into(),
        }
    }
}
