use std::{collections::BTreeMap, future::pending};

use access::Caller;
use api::{OwnProfile, SyncAnswer, SyncedConversation};
use axum::Json;
use problem::{Path, Problem, Query};
use schemas::{EventPosition, Partition, StoredProfile, SyncToken, UserId, sync::SyncCursor};

use crate::{
    after::{AsOf, RequiredWatermarks},
    call::Call,
    conversation_item,
    deadline::Deadline,
    error::QueryError,
    listed_group,
    openapi::Refusal,
    parameters::{Since, Switch, SyncLimit, UserPath, query_parameters},
    profiles,
    routes::groups,
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
    call: Call,
    caller: Caller,
    Path(UserPath { uid }): Path<UserPath>,
    Query(query): Query<SyncQuery>,
) -> Result<Json<SyncAnswer>, QueryError> {
    caller.may_read(uid)?;
    let deadline = Deadline::in_time(query.timeout_ms);
    let limit = query.limit.unwrap_or_default().get();
    let since = query.since.and_then(|Since(token)| token);
    let page = read(&call, uid, since, limit, deadline).await;
    let (cursor, mut page) = page.map_err(QueryError::of_mysql)?;
    let groups = page.rows.iter_mut().filter_map(Row::as_group);
    let hidden = listed_group::read_hidden(&call, uid, groups, deadline).await;
    hidden.map_err(QueryError::of_mysql)?;
    let mut answer = SyncAnswer {
        conversations: Vec::new(),
        groups: Vec::new(),
        left: Vec::new(),
        profile: page.profile.map(own_profile),
        next: cursor.next(page.end, &page.applied),
        more: page.end.is_some(),
        full: cursor.full,
        profiles: None,
    };
    add(&mut answer, page.rows);
    add_profiles(&mut answer, &call, uid, query.profiles, deadline).await?;
    Ok(Json(answer))
}

/// A page from a token on; from nothing on, where rows of what happened since were deleted (PROTOCOL Y8).
async fn read(
    call: &Call,
    uid: UserId,
    since: Option<SyncToken>,
    limit: usize,
    deadline: Deadline,
) -> Result<(SyncCursor, Page), QueryError> {
    match read_since(call, uid, since, limit, deadline).await {
        Err(QueryError::Forgotten) => read_since(call, uid, None, limit, deadline).await,
        read => read,
    }
}

/// A page from a token on; from nothing on, where the token is ahead of `chat.events`: then it is of another log, and no store will ever have what it
/// covers (PROTOCOL Y7).
async fn read_since(
    call: &Call,
    uid: UserId,
    since: Option<SyncToken>,
    limit: usize,
    deadline: Deadline,
) -> Result<(SyncCursor, Page), QueryError> {
    let shard = call.store.layout().shard_of_user(uid);
    let epoch = deadline.bound(call.current_epoch(shard)).await??;
    let cursor = SyncCursor::new(since.clone(), epoch);
    let attempt = || sync_rows::read(call, uid, &cursor, limit);
    let (lag, since) = match (deadline.bound(attempt()).await?, since) {
        (Err(QueryError::Lagging(lag)), Some(since)) => (lag, since),
        (page, _) => return Ok((cursor.clone(), page?)),
    };
    tokio::select! {
        page = call.repeat(deadline, lag, attempt) => {
            let page = page.map_err(with_way_out)?;
            Ok((cursor.clone(), page))
        }
        () = is_ahead(call, &since) => {
            let cursor = SyncCursor::new(None, epoch);
            deadline.bound(call.go_on()).await?;
            let page = call.poll(deadline, || sync_rows::read(call, uid, &cursor, limit)).await?;
            Ok((cursor, page))
        }
    }
}

/// Returns once it is known that a token is ahead of the log.
async fn is_ahead(call: &Call, since: &SyncToken) {
    match call.log_ends.reach(since).await {
        Ok(false) => {}
        Ok(true) => pending().await,
        Err(error) => {
            tracing::debug!(%error, "where chat.events ends is not known");
            pending::<()>().await;
        }
    }
}

/// Adds what the caller may do to the error of a store that lags.
fn with_way_out(error: QueryError) -> QueryError {
    let lags @ QueryError::StoreLags { .. } = error else {
        return error;
    };
    Problem::timeout(format!(
        "since covers what is not stored yet: {lags}; try again, or without since, which returns everything"
    ))
    .into()
}

fn add(answer: &mut SyncAnswer, rows: Vec<Row>) {
    for row in rows {
        let (partition, ..) = row.key();
        match row {
            Row::Contact(row) => {
                let (deleted, peer_ordinal) = (row.is_deleted(), row.contact.peer_ordinal.get());
                let offset =
                    Some(row.contact.event_offset).filter(|event_offset| *event_offset >= 0);
                let at = offset.map(|offset| EventPosition { partition, offset });
                // What the contact row itself has of the newest message is as old as the row.
                let item = conversation_item::of_contact(row, &mut BTreeMap::new());
                answer.conversations.push(SyncedConversation {
                    item,
                    peer_ordinal,
                    at,
                    deleted,
                });
            }
            Row::Group(group) => answer.groups.push(groups::item(group)),
            Row::Left(gid) => answer.left.push(gid),
        }
    }
}

async fn add_profiles(
    answer: &mut SyncAnswer,
    call: &Call,
    uid: UserId,
    wanted: Switch,
    deadline: Deadline,
) -> Result<(), QueryError> {
    let conversations = answer.conversations.iter();
    let peers = conversations.filter_map(|one| conversation_item::user(&one.item));
    let last = answer.groups.iter().filter_map(|group| group.last.as_ref());
    let users = peers.chain(last.map(|last| last.srcid)).chain([uid]);
    let nothing = RequiredWatermarks::default();
    let joined = profiles::join(call, wanted, users, &nothing, deadline, AsOf::default());
    (answer.profiles, _) = joined.await?;
    Ok(())
}

fn own_profile(stored: StoredProfile) -> OwnProfile {
    OwnProfile {
        at: EventPosition {
            partition: Partition::of_user(stored.profile.uid),
            offset: stored.event_offset,
        },
        item: stored.into(),
    }
}
