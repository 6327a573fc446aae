use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use access::Caller;
use api::{ConversationItem, ConversationsPage};
use axum::Json;
use message_store::{ContactCursor, ContactRow, Membership, MessageRow, Shard, Sink};
use problem::{Path, Query};
use schemas::{Partition, UserId};

use crate::{
    after::{AsOf, RequiredWatermarks, Watermarks},
    call::Call,
    conversation_item::{self, MessageKey, last_message_key},
    cursor::{self, ListPosition},
    deadline::Deadline,
    error::QueryError,
    listed_group::{self, ListedGroup},
    newest_groups::{self, VERY_MANY},
    openapi::Refusal,
    parameters::{Limit, Switch, UserPath, query_parameters},
    profiles, sink_watermarks,
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
    call: Call,
    caller: Caller,
    Path(UserPath { uid }): Path<UserPath>,
    Query(query): Query<ConversationsQuery>,
) -> Result<Json<ConversationsPage>, QueryError> {
    caller.may_read(uid)?;
    let deadline = Deadline::in_time(query.timeout_ms);
    let limit = query.limit.unwrap_or_default();
    let required = RequiredWatermarks::parse(&query.after, call.epoch.get())?;
    let cursor = query.cursor.as_deref();
    let begin = cursor.map(|text| cursor::decode(uid, text)).transpose()?;

    let attempt = || user_rows(&call, uid, begin, limit, &required);
    let (contacts, memberships, watermarks) = call.poll(deadline, attempt).await?;
    let mut as_of = AsOf::from(watermarks);
    let groups;
    (groups, as_of) = match memberships {
        Some(all) => {
            let all_of = (begin, usize::MAX);
            listed_group::read_listed(&call, uid, [all], all_of, &required, deadline, as_of).await?
        }
        None => {
            let count = limit.get() + 1;
            of_very_many(&call, uid, begin, count, &required, deadline, as_of).await?
        }
    };
    let contacts = contacts.into_iter().map(Row::Contact);
    let rows = contacts.chain(groups.into_iter().map(Row::Group)).collect();
    let (rows, next) = page(uid, rows, begin, limit);
    let (items, as_of) = items(&call, uid, rows, &required, deadline, as_of).await?;
    let users = items
        .iter()
        .filter_map(conversation_item::user)
        .chain([uid]);
    let (profiles, as_of) =
        profiles::join(&call, query.profiles, users, &required, deadline, as_of).await?;
    Ok(Json(ConversationsPage {
        items,
        next,
        profiles,
        as_of: as_of.positions(),
    }))
}

/// The next `count` groups after `begin`, at least.
async fn of_very_many(
    call: &Call,
    uid: UserId,
    begin: Option<ListPosition>,
    count: usize,
    required: &RequiredWatermarks,
    deadline: Deadline,
    as_of: AsOf,
) -> Result<(Vec<ListedGroup>, AsOf), QueryError> {
    let newest =
        newest_groups::read(call, uid, begin, count, required, deadline, as_of.clone()).await?;
    if let Some(newest) = newest {
        return Ok(newest);
    }
    let memberships = deadline.bound(all_memberships(call, uid)).await??;
    let all_of = (begin, usize::MAX);
    listed_group::read_listed(call, uid, memberships, all_of, required, deadline, as_of).await
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
    call: &Call,
    uid: UserId,
    begin: Option<ListPosition>,
    limit: Limit,
    required: &RequiredWatermarks,
) -> Result<(Vec<ContactRow>, Option<Vec<Membership>>, Watermarks), QueryError> {
    let shard = call.store.layout().shard_of_user(uid);
    let (mut tx, watermarks) =
        sink_watermarks::snapshot(call, shard, Sink::Contacts, required).await?;
    let begin = begin.map(ContactCursor::from);
    let contacts = tx.contact_page(uid, begin, limit.and_one()).await?;
    let memberships = tx.memberships(uid, None, VERY_MANY).await?;
    let are_all = memberships.len() < VERY_MANY as usize;
    Ok((contacts, are_all.then_some(memberships), watermarks))
}

/// All memberships, in parts of as many as one statement reads.
async fn all_memberships(call: &Call, uid: UserId) -> Result<Vec<Vec<Membership>>, QueryError> {
    let mut tx = call
        .snapshot(call.store.layout().shard_of_user(uid))
        .await?;
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
    let last = limit.cut(&mut rows);
    let next = last.map(|row| cursor::encode(uid, row.position()));
    (rows, next)
}

/// What is shown of a page's rows.
async fn items(
    call: &Call,
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
    let (mut messages, as_of) = last_messages(call, contacts, required, deadline, as_of).await?;
    let groups = rows.iter_mut().filter_map(|row| match row {
        Row::Contact(_) => None,
        Row::Group(group) => Some(group),
    });
    listed_group::read_hidden(call, uid, groups, deadline).await?;
    let item = |row| match row {
        Row::Contact(row) if !row.is_listed() => None,
        Row::Contact(row) => Some(conversation_item::of_contact(row, &mut messages)),
        Row::Group(group) => Some(conversation_item::of_group(group)),
    };
    Ok((rows.into_iter().filter_map(item).collect(), as_of))
}

/// The newest messages of these conversations, in one query for each database that holds some of them.
async fn last_messages(
    call: &Call,
    keys: impl Iterator<Item = MessageKey>,
    required: &RequiredWatermarks,
    deadline: Deadline,
    mut as_of: AsOf,
) -> Result<(BTreeMap<MessageKey, MessageRow>, AsOf), QueryError> {
    let mut by_shard: BTreeMap<Shard, Vec<MessageKey>> = BTreeMap::new();
    for key in keys {
        let shard = call.store.layout().shard_of(key.0.partition());
        by_shard.entry(shard).or_default().push(key);
    }
    let mut found = BTreeMap::new();
    for (shard, keys) in by_shard {
        let (messages, watermarks) = call
            .poll(deadline, || messages_of(call, shard, &keys, required))
            .await?;
        found.extend(messages);
        as_of = as_of.and(watermarks);
    }
    Ok((found, as_of))
}

async fn messages_of(
    call: &Call,
    shard: Shard,
    keys: &[MessageKey],
    required: &RequiredWatermarks,
) -> Result<(BTreeMap<MessageKey, MessageRow>, Watermarks), QueryError> {
    let partitions: BTreeSet<Partition> = keys.iter().map(|key| key.0.partition()).collect();
    let required = required
        .clone()
        .restrict_to(|partition| partitions.contains(&partition));
    let (mut tx, watermarks) =
        sink_watermarks::snapshot(call, shard, Sink::Messages, &required).await?;
    Ok((tx.messages_by_mid(keys).await?, watermarks))
}
