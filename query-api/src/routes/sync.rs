use std::{collections::BTreeMap, future::pending};

use access::Caller;
use axum::Json;
use problem::{Path, Problem, Query};
use schemas::{GroupId, Partition, StoredProfile, SyncToken, UserId, sync::SyncCursor};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    after::{AsOf, RequiredWatermarks},
    api::Api,
    conversation_item::ConversationItem,
    deadline::Deadline,
    error::QueryError,
    listed_group,
    openapi::Refusal,
    parameters::{Since, Switch, SyncLimit, UserPath, query_parameters},
    profiles::{self, ProfileItem, ProfileItems},
    routes::groups::GroupItem,
    sync_rows::{self, Page, Row},
};

query_parameters! {
    /// Since when, and how much.
    struct SyncQuery {
        /// `next` of the answer before, or the token of a gateway, as it came. Absent: everything.
        #[param(value_type = Option<String>)]
        since: Option<Since>,
        /// How many conversations, groups and groups left at most; 200 where absent.
        #[param(value_type = Option<u16>, minimum = 1, maximum = 1_000)]
        limit: Option<SyncLimit>,
        /// Whether the answer has the profiles of the users in it, as of now: `true` or `false`.
        #[serde(default)]
        #[param(value_type = Option<bool>)]
        profiles: Switch,
    }
}

/// What has changed for a user since a token.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SyncAnswer {
    /// Conversations with users in which something has changed, as they are now. Of the newest message they have the first 200 characters, and no `client_msg_id`.
    conversations: Vec<SyncedConversation>,
    /// Groups of the user in which something has changed, as they are now.
    groups: Vec<GroupItem>,
    /// Groups that the user has left, or was removed from. None in a full answer.
    #[schema(value_type = Vec<String>, example = json!(["5001"]))]
    left: Vec<GroupId>,
    /// The user's own profile, as it is now. Absent where it has not changed, and where the user has set none.
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<OwnProfile>,
    /// `since` of the next call. At most 512 characters while a partition has less than 2^40 events.
    #[schema(value_type = String, example = "AQAAAAABAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")]
    next: SyncToken,
    /// Whether this is a page of an answer: the next call, with `next`, goes on with it.
    more: bool,
    /// Whether this is everything that the user has, not only what has changed. All pages of one answer say the same: what none of them has, the
    /// device drops.
    full: bool,
    /// With `profiles=true`: by user; users who have set none are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, ProfileItem>>)]
    profiles: Option<ProfileItems>,
}

/// What others see of the user.
#[derive(Debug, Serialize, ToSchema)]
struct OwnProfile {
    #[serde(flatten)]
    item: ProfileItem,
    /// Its event, in `chat.events`: an earlier one of a gateway is older than this.
    #[schema(example = "40:7")]
    at: String,
}

/// A conversation between two users.
#[derive(Debug, Serialize, ToSchema)]
struct SyncedConversation {
    #[serde(flatten)]
    item: ConversationItem,
    /// How many messages the other side has sent: a device counts on from here by the `n` of events.
    #[schema(minimum = 0, example = 2)]
    peer_n: i64,
    /// Its last event, in `chat.events`. Absent for a row that an older version wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "8:41")]
    at: Option<String>,
    /// The user has deleted the contact, and there is no newer message: lists leave it out. Absent where not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(value_type = Option<bool>)]
    deleted: bool,
}

/// Sync a device
///
/// What has changed for a user since a device asked last: every conversation and group that an event at or above the token has touched, as it is now, and the
/// user's own profile where it was set since.
/// Nothing is missed, and a row may come again. The device keeps `next` once it has stored the answer. Without a token, with one of another epoch, of a
/// version of Tidemark that is not known here, one that is ahead of the log (of another installation), or one from before what is remembered of groups left (30 days), everything is returned. The call waits until
/// every store that it reads has what the token covers. An `unread` of null means that the count is not known yet: `/unread` waits for it.
#[utoipa::path(
    get,
    path = "/v1/users/{uid}/sync",
    tag = "query",
    params(UserPath, SyncQuery),
    responses(
        (status = 200, description = "What has changed; nothing is not an error.", body = SyncAnswer),
        Refusal,
        (status = 504, description = "What the token covers was not stored in time: try again.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn get_sync(
    api: Api,
    caller: Caller,
    Path(UserPath { uid }): Path<UserPath>,
    Query(query): Query<SyncQuery>,
) -> Result<Json<SyncAnswer>, QueryError> {
    caller.may_read(uid)?;
    let deadline = Deadline::in_time(query.timeout_ms);
    let limit = query.limit.unwrap_or_default().get();
    let since = query.since.and_then(|Since(token)| token);
    let page = read(&api, uid, since, limit, deadline).await;
    let (cursor, mut page) = page.map_err(QueryError::of_mysql)?;
    let groups = page.rows.iter_mut().filter_map(Row::as_group);
    let hidden = listed_group::read_hidden(&api, uid, groups, deadline).await;
    hidden.map_err(QueryError::of_mysql)?;
    let mut answer = SyncAnswer {
        conversations: Vec::new(),
        groups: Vec::new(),
        left: Vec::new(),
        profile: page.profile.map(OwnProfile::from),
        next: cursor.next(page.end, &page.applied),
        more: page.end.is_some(),
        full: cursor.full,
        profiles: None,
    };
    answer.add(page.rows);
    answer
        .add_profiles(&api, uid, query.profiles, deadline)
        .await?;
    Ok(Json(answer))
}

/// A page from a token on; from nothing on, where rows of what happened since were deleted (PROTOCOL Y8).
async fn read(
    api: &Api,
    uid: UserId,
    since: Option<SyncToken>,
    limit: usize,
    deadline: Deadline,
) -> Result<(SyncCursor, Page), QueryError> {
    match read_since(api, uid, since, limit, deadline).await {
        Err(QueryError::Forgotten) => read_since(api, uid, None, limit, deadline).await,
        read => read,
    }
}

/// A page from a token on; from nothing on, where the token is ahead of `chat.events`: then it is of another log, and no store will ever have what it
/// covers (PROTOCOL Y7).
async fn read_since(
    api: &Api,
    uid: UserId,
    since: Option<SyncToken>,
    limit: usize,
    deadline: Deadline,
) -> Result<(SyncCursor, Page), QueryError> {
    let shard = api.store.layout().shard_of_user(uid);
    let epoch = deadline.bound(api.current_epoch(shard)).await??;
    let cursor = SyncCursor::new(since.clone(), epoch);
    let attempt = || sync_rows::read(api, uid, &cursor, limit);
    let (lag, since) = match (deadline.bound(attempt()).await?, since) {
        (Err(QueryError::Lagging(lag)), Some(since)) => (lag, since),
        (page, _) => return Ok((cursor.clone(), page?)),
    };
    tokio::select! {
        page = api.repeat(deadline, lag, attempt) => {
            let page = page.map_err(with_way_out)?;
            Ok((cursor.clone(), page))
        }
        () = is_ahead(api, &since) => {
            let cursor = SyncCursor::new(None, epoch);
            deadline.bound(api.go_on()).await?;
            let page = api.poll(deadline, || sync_rows::read(api, uid, &cursor, limit)).await?;
            Ok((cursor, page))
        }
    }
}

/// Returns once it is known that a token is ahead of the log.
async fn is_ahead(api: &Api, since: &SyncToken) {
    match api.log_ends.reach(since).await {
        Ok(false) => {}
        Ok(true) => pending().await,
        Err(error) => {
            tracing::debug!(%error, "where chat.events ends is not known");
            pending::<()>().await;
        }
    }
}

/// What the caller may do where a store lags.
fn with_way_out(error: QueryError) -> QueryError {
    let lags @ QueryError::StoreLags { .. } = error else {
        return error;
    };
    Problem::timeout(format!(
        "since covers what is not stored yet: {lags}; try again, or without since, which returns everything"
    ))
    .into()
}

impl SyncAnswer {
    fn add(&mut self, rows: Vec<Row>) {
        for row in rows {
            let (partition, ..) = row.key();
            match row {
                Row::Contact(row) => {
                    let (deleted, peer_n) = (row.is_deleted(), row.contact.peer_n.get());
                    let pos = Some(row.contact.pos).filter(|pos| *pos >= 0);
                    let at = pos.map(|pos| format!("{partition}:{pos}"));
                    // What the contact row itself has of the newest message is as old as the row.
                    let item = ConversationItem::of_contact(row, &mut BTreeMap::new());
                    self.conversations.push(SyncedConversation {
                        item,
                        peer_n,
                        at,
                        deleted,
                    });
                }
                Row::Group(group) => self.groups.push(group.into()),
                Row::Left(gid) => self.left.push(gid),
            }
        }
    }

    async fn add_profiles(
        &mut self,
        api: &Api,
        uid: UserId,
        wanted: Switch,
        deadline: Deadline,
    ) -> Result<(), QueryError> {
        let peers = self.conversations.iter().filter_map(|one| one.item.user());
        let senders = self.groups.iter().filter_map(GroupItem::sender);
        let users = peers.chain(senders).chain([uid]);
        let nothing = RequiredWatermarks::default();
        let joined = profiles::join(api, wanted, users, &nothing, deadline, AsOf::default());
        (self.profiles, _) = joined.await?;
        Ok(())
    }
}

impl From<StoredProfile> for OwnProfile {
    fn from(stored: StoredProfile) -> Self {
        let partition = Partition::of_user(stored.profile.uid);
        Self {
            at: format!("{partition}:{}", stored.pos),
            item: stored.into(),
        }
    }
}
