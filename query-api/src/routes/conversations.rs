use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use access::Caller;
use axum::Json;
use message_store::{ContactCursor, ContactRow, Membership, MessageRow, Shard, Sink};
use problem::{Path, Query};
use schemas::{Partition, UserId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    after::{AsOf, RequiredWatermarks, Watermarks},
    api::Api,
    conversation_item::{ConversationItem, MessageKey, last_message_key},
    cursor::{self, ListPosition},
    deadline::Deadline,
    error::QueryError,
    listed_group::{self, ListedGroup},
    newest_groups::{self, VERY_MANY},
    openapi::Refusal,
    parameters::{Limit, Switch, UserPath, query_parameters},
    profiles::{self, ProfileItem, ProfileItems},
    sink_watermarks,
};

/// How many memberships one statement reads.
const MEMBERSHIPS_AT_ONCE: u32 = 1_000;

query_parameters! {
    /// Which part of the list.
    struct ConversationsQuery, after = "17:42" {
        /// How many at most; 50 where absent.
        #[param(value_type = Option<u8>, minimum = 1, maximum = 200)]
        limit: Option<Limit>,
        /// `next` of the page before, as it came.
        cursor: Option<String>,
        /// Whether the answer has the profiles of the users in it, as of now: `true` or `false`.
        #[serde(default)]
        #[param(value_type = Option<bool>)]
        profiles: Switch,
    }
}

/// A part of a user's conversation list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ConversationsPage {
    /// Pinned conversations first, then that with the newest message. Contacts that the user has deleted, and contacts and groups without
    /// messages, are left out. A page may hold fewer than `limit`; only `next` tells whether it is the last.
    items: Vec<ConversationItem>,
    /// `cursor` of the next page; null where nothing is left.
    #[schema(example = "AgAAAAGapVWYewAAAAAAAAPp0NMkeHGdR8Y")]
    next: Option<String>,
    /// With `profiles=true`: by user; users who have set none are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<std::collections::BTreeMap<String, ProfileItem>>)]
    profiles: Option<ProfileItems>,
    /// With `after=`: how far the stores had come, by partition.
    #[serde(skip_serializing_if = "AsOf::is_empty")]
    #[schema(value_type = Option<Vec<String>>, example = json!(["17:45"]))]
    as_of: AsOf,
}

/// List a user's conversations
///
/// Read positions are those of the contact and membership rows, which are about a second behind. Groups are in the list along with users. They are
/// ordered by their newest message, which no row of the user has: of a user with fewer than 500 memberships all groups are read, of others the newest groups of
/// the installation, by an index, until those of the page are among them. Where they are too rare, all groups of the user are read.
#[utoipa::path(
    get,
    path = "/v1/users/{uid}/conversations",
    tag = "query",
    params(UserPath, ConversationsQuery),
    responses(
        (status = 200, description = "The conversations; none is not an error.", body = ConversationsPage),
        Refusal,
    ),
)]
pub(crate) async fn get_conversations(
    api: Api,
    caller: Caller,
    Path(UserPath { uid }): Path<UserPath>,
    Query(query): Query<ConversationsQuery>,
) -> Result<Json<ConversationsPage>, QueryError> {
    caller.may_read(uid)?;
    let deadline = Deadline::in_time(query.timeout_ms);
    let limit = query.limit.unwrap_or_default();
    let required = RequiredWatermarks::parse(&query.after, api.epoch.get())?;
    let cursor = query.cursor.as_deref();
    let begin = cursor.map(|text| cursor::decode(uid, text)).transpose()?;

    let attempt = || user_rows(&api, uid, begin, limit, &required);
    let (contacts, memberships, watermarks) = api.poll(deadline, attempt).await?;
    let mut as_of = AsOf::from(watermarks);
    let groups;
    (groups, as_of) = match memberships {
        Some(all) => {
            let all_of = (begin, usize::MAX);
            listed_group::read_listed(&api, uid, [all], all_of, &required, deadline, as_of).await?
        }
        None => {
            let count = limit.get() + 1;
            of_very_many(&api, uid, begin, count, &required, deadline, as_of).await?
        }
    };
    let contacts = contacts.into_iter().map(Row::Contact);
    let rows = contacts.chain(groups.into_iter().map(Row::Group)).collect();
    let (rows, next) = page(uid, rows, begin, limit);
    let (items, as_of) = items(&api, uid, rows, &required, deadline, as_of).await?;
    let users = items.iter().filter_map(ConversationItem::user).chain([uid]);
    let (profiles, as_of) =
        profiles::join(&api, query.profiles, users, &required, deadline, as_of).await?;
    Ok(Json(ConversationsPage {
        items,
        next,
        profiles,
        as_of,
    }))
}

/// The next `count` groups after `begin`, at least.
async fn of_very_many(
    api: &Api,
    uid: UserId,
    begin: Option<ListPosition>,
    count: usize,
    required: &RequiredWatermarks,
    deadline: Deadline,
    as_of: AsOf,
) -> Result<(Vec<ListedGroup>, AsOf), QueryError> {
    let newest =
        newest_groups::read(api, uid, begin, count, required, deadline, as_of.clone()).await?;
    if let Some(newest) = newest {
        return Ok(newest);
    }
    let memberships = deadline.bound(all_memberships(api, uid)).await??;
    let all_of = (begin, usize::MAX);
    listed_group::read_listed(api, uid, memberships, all_of, required, deadline, as_of).await
}

/// A row of the list.
enum Row {
    Contact(ContactRow),
    Group(ListedGroup),
}

impl Row {
    fn position(&self) -> ListPosition {
        match self {
            Self::Contact(row) => row.cursor().into(),
            Self::Group(group) => group.position(),
        }
    }
}

/// Reads one contact more than the page shows, which tells whether there is a next page, and all memberships, unless they are very many.
async fn user_rows(
    api: &Api,
    uid: UserId,
    begin: Option<ListPosition>,
    limit: Limit,
    required: &RequiredWatermarks,
) -> Result<(Vec<ContactRow>, Option<Vec<Membership>>, Watermarks), QueryError> {
    let shard = api.store.layout().shard_of_user(uid);
    let (mut tx, watermarks) =
        sink_watermarks::snapshot(api, shard, Sink::Contacts, required).await?;
    let begin = begin.map(ContactCursor::from);
    let contacts = tx.contact_page(uid, begin, limit.and_one()).await?;
    let memberships = tx.memberships(uid, None, VERY_MANY).await?;
    let are_all = memberships.len() < VERY_MANY as usize;
    Ok((contacts, are_all.then_some(memberships), watermarks))
}

/// All memberships, by so many as one statement reads.
async fn all_memberships(api: &Api, uid: UserId) -> Result<Vec<Vec<Membership>>, QueryError> {
    let mut tx = api.snapshot(api.store.layout().shard_of_user(uid)).await?;
    let mut memberships = Vec::new();
    let mut after = None;
    loop {
        let rows = tx.memberships(uid, after, MEMBERSHIPS_AT_ONCE).await?;
        let is_last = rows.len() < MEMBERSHIPS_AT_ONCE as usize;
        after = rows.last().map(|row| row.gid);
        memberships.push(rows);
        if is_last {
            return Ok(memberships);
        }
    }
}

/// The rows of the page that begins behind `begin`, and the cursor of the next one.
fn page(
    uid: UserId,
    mut rows: Vec<Row>,
    begin: Option<ListPosition>,
    limit: Limit,
) -> (Vec<Row>, Option<String>) {
    rows.retain(|row| begin.is_none_or(|begin| row.position() < begin));
    rows.sort_by_key(|row| Reverse(row.position()));
    let more = rows.len() > limit.get();
    rows.truncate(limit.get());
    let last = rows.last().filter(|_| more);
    let next = last.map(|row| cursor::encode(uid, row.position()));
    (rows, next)
}

/// What is shown of a page's rows.
async fn items(
    api: &Api,
    uid: UserId,
    mut rows: Vec<Row>,
    required: &RequiredWatermarks,
    deadline: Deadline,
    as_of: AsOf,
) -> Result<(Vec<ConversationItem>, AsOf), QueryError> {
    let contacts = rows.iter().filter_map(|row| match row {
        Row::Contact(row) if row.is_listed() => last_message_key(row),
        Row::Contact(_) | Row::Group(_) => None,
    });
    let (mut messages, as_of) = last_messages(api, contacts, required, deadline, as_of).await?;
    let groups = rows.iter_mut().filter_map(|row| match row {
        Row::Contact(_) => None,
        Row::Group(group) => Some(group),
    });
    listed_group::read_hidden(api, uid, groups, deadline).await?;
    let item = |row| match row {
        Row::Contact(row) if !row.is_listed() => None,
        Row::Contact(row) => Some(ConversationItem::of_contact(row, &mut messages)),
        Row::Group(group) => Some(ConversationItem::of_group(group)),
    };
    Ok((rows.into_iter().filter_map(item).collect(), as_of))
}

/// The newest messages of these conversations, in one query for each database that holds some of them.
async fn last_messages(
    api: &Api,
    keys: impl Iterator<Item = MessageKey>,
    required: &RequiredWatermarks,
    deadline: Deadline,
    mut as_of: AsOf,
) -> Result<(BTreeMap<MessageKey, MessageRow>, AsOf), QueryError> {
    let mut by_shard: BTreeMap<Shard, Vec<MessageKey>> = BTreeMap::new();
    for key in keys {
        let shard = api.store.layout().shard_of(key.0.partition());
        by_shard.entry(shard).or_default().push(key);
    }
    let mut found = BTreeMap::new();
    for (shard, keys) in by_shard {
        let (messages, watermarks) = api
            .poll(deadline, || messages_of(api, shard, &keys, required))
            .await?;
        found.extend(messages);
        as_of = as_of.and(watermarks);
    }
    Ok((found, as_of))
}

async fn messages_of(
    api: &Api,
    shard: Shard,
    keys: &[MessageKey],
    required: &RequiredWatermarks,
) -> Result<(BTreeMap<MessageKey, MessageRow>, Watermarks), QueryError> {
    let partitions: BTreeSet<Partition> = keys.iter().map(|key| key.0.partition()).collect();
    let required = required
        .clone()
        .restrict_to(|partition| partitions.contains(&partition));
    let (mut tx, watermarks) =
        sink_watermarks::snapshot(api, shard, Sink::Messages, &required).await?;
    Ok((tx.messages_by_mid(keys).await?, watermarks))
}
