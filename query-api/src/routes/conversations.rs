use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use access::Caller;
use axum::{Json, extract::State};
use message_store::{
    ContactCursor, ContactRow, LastMessage, MessageRow, MessageState, ReadUpTo, Shard, Sink,
};
use problem::{Path, Problem, Query};
use schemas::{DirectConversation, Mid, Partition, TableNumber, UserId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    after::{AsOf, RequiredWatermarks, Watermarks},
    by_class::ByClass,
    cursor,
    deadline::Deadline,
    error::QueryError,
    flags::Flags,
    message_item::MessageItem,
    parameters::{Limit, Switch, TimeoutMs, UserPath},
    profiles::{self, ProfileItem, ProfileItems},
    sink_watermarks,
    state::QueryApi,
};

/// Which part of the list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ConversationsQuery {
    /// How many at most; 50 where absent.
    #[param(value_type = Option<u8>, minimum = 1, maximum = 200)]
    limit: Option<Limit>,
    /// `next` of the page before, as it came.
    cursor: Option<String>,
    /// Whether the answer has the profiles of the users in it, as of now: `true` or `false`.
    #[serde(default)]
    #[param(value_type = Option<bool>)]
    profiles: Switch,
    /// `<partition>:<offset>` of a 202: the answer reflects at least this event. May be repeated, up to 64 times.
    #[serde(default)]
    #[param(example = json!(["17:42"]))]
    after: Vec<String>,
    /// How long the call may take, milliseconds; 5000 where absent.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 30_000)]
    timeout_ms: Option<TimeoutMs>,
}

/// A part of a user's conversation list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ConversationsPage {
    /// Pinned conversations first, then that with the newest message. Contacts that the user has deleted, and those without messages, are
    /// left out. A page may hold fewer than `limit`; only `next` tells whether it is the last.
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

/// One conversation.
#[derive(Debug, Serialize, ToSchema)]
struct ConversationItem {
    /// The other side; the user in a note to oneself.
    #[schema(value_type = String, example = "1001")]
    peer: UserId,
    /// Its newest message; null where the user has hidden or cleared it, or it was deleted.
    last: Option<MessageItem>,
    /// The number of its newest message; 0 where there is none.
    #[schema(minimum = 0, example = 3)]
    last_mid: i64,
    /// The number of its last change, which its list of changes has; 0 where there is none.
    #[schema(minimum = 0, example = 1)]
    chg: i64,
    /// What the user has set for it.
    #[serde(flatten)]
    flags: Flags,
    /// Unread messages of the other side, by class of device; null where they cannot be counted any more.
    unread: ByClass<Option<i64>>,
    /// Up to where the user has read, by class of device.
    read_mid: ByClass<i64>,
}

/// Identifies a message.
type MessageKey = (DirectConversation, Mid);

/// List a user's conversations
///
/// Read positions are those of the contact rows, which are about a second behind.
#[utoipa::path(
    get,
    path = "/v1/users/{uid}/conversations",
    tag = "query",
    params(UserPath, ConversationsQuery),
    responses(
        (status = 200, description = "The conversations; none is not an error.", body = ConversationsPage),
        (status = 400, description = "A parameter is not as it should be.", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "Too many calls are under way, or too many of the caller's.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "MySQL does not answer.", body = Problem, content_type = "application/problem+json"),
        (status = 504, description = "The event of `after=` was not stored in time.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn get_conversations(
    State(api): State<Arc<QueryApi>>,
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

    let attempt = || contacts(&api, uid, begin, limit, &required);
    let (contacts, watermarks) = api.poll(deadline, attempt).await?;
    let next = next_cursor(uid, &contacts, limit);
    let shown: Vec<ContactRow> = contacts
        .into_iter()
        .take(limit.get())
        .filter(ContactRow::is_listed)
        .collect();
    let (mut messages, as_of) =
        last_messages(&api, &shown, &required, deadline, watermarks).await?;
    let item = |row| ConversationItem::new(row, &mut messages);
    let items: Vec<ConversationItem> = shown.into_iter().map(item).collect();
    let users = items.iter().map(|item| item.peer).chain([uid]);
    let (profiles, as_of) =
        profiles::join(&api, query.profiles, users, &required, deadline, as_of).await?;
    Ok(Json(ConversationsPage {
        items,
        next,
        profiles,
        as_of,
    }))
}

/// Reads one row more than the page shows, which tells whether there is a next page.
async fn contacts(
    api: &QueryApi,
    uid: UserId,
    begin: Option<ContactCursor>,
    limit: Limit,
    required: &RequiredWatermarks,
) -> Result<(Vec<ContactRow>, Watermarks), QueryError> {
    let shard = api.store.layout().shard_of(TableNumber::of_user(uid));
    let mut tx = api.store.snapshot(shard).await?;
    let watermarks =
        sink_watermarks::reached(&mut tx, Sink::Contacts, &api.events_topic, required).await?;
    let contacts = tx.contact_page(uid, begin, limit.and_one()).await?;
    Ok((contacts, watermarks))
}

fn next_cursor(uid: UserId, contacts: &[ContactRow], limit: Limit) -> Option<String> {
    let last = contacts.get(limit.get() - 1)?;
    (contacts.len() > limit.get()).then(|| cursor::encode(uid, last.cursor()))
}

/// The newest messages of these conversations, in one query for each database that holds some of them.
async fn last_messages(
    api: &QueryApi,
    contacts: &[ContactRow],
    required: &RequiredWatermarks,
    deadline: Deadline,
    contact_watermarks: Watermarks,
) -> Result<(BTreeMap<MessageKey, MessageRow>, AsOf), QueryError> {
    let mut by_shard: BTreeMap<Shard, Vec<MessageKey>> = BTreeMap::new();
    for key in contacts.iter().filter_map(last_message_key) {
        let shard = api.store.layout().shard_of(key.0.partition());
        by_shard.entry(shard).or_default().push(key);
    }
    let mut found = BTreeMap::new();
    let mut as_of = AsOf::from(contact_watermarks);
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
    api: &QueryApi,
    shard: Shard,
    keys: &[MessageKey],
    required: &RequiredWatermarks,
) -> Result<(BTreeMap<MessageKey, MessageRow>, Watermarks), QueryError> {
    let partitions: BTreeSet<Partition> = keys.iter().map(|key| key.0.partition()).collect();
    let required = required
        .clone()
        .restrict_to(|partition| partitions.contains(&partition));
    let mut tx = api.store.snapshot(shard).await?;
    let watermarks =
        sink_watermarks::reached(&mut tx, Sink::Messages, &api.events_topic, &required).await?;
    Ok((tx.messages_by_mid(keys).await?, watermarks))
}

fn conversation_of(row: &ContactRow) -> DirectConversation {
    DirectConversation::new(row.contact.uid, row.contact.peer)
}

fn last_message_key(row: &ContactRow) -> Option<MessageKey> {
    Some((conversation_of(row), row.visible_last()?.mid))
}

/// The newest message; where its row is missing, the preview is shown. Either of the two may be older than a recall.
fn last_item(
    last: LastMessage,
    row: Option<MessageRow>,
    conversation: DirectConversation,
) -> Option<MessageItem> {
    if row
        .as_ref()
        .is_some_and(|row| row.state == MessageState::Deleted)
    {
        return None;
    }
    let is_recalled = last.state == MessageState::Recalled;
    let item = match row {
        Some(row) => row.into(),
        None => MessageItem::preview(last, conversation.into()),
    };
    Some(if is_recalled { item.recalled() } else { item })
}

impl ConversationItem {
    /// Takes the newest message out of `messages`.
    fn new(row: ContactRow, messages: &mut BTreeMap<MessageKey, MessageRow>) -> Self {
        let conversation = conversation_of(&row);
        let full = last_message_key(&row).and_then(|key| messages.remove(&key));
        let last = row.visible_last().cloned();
        let last_mid = row.contact.last.as_ref().map_or(0, |last| last.mid.get());
        let read = row.read_mids();
        let unread = ByClass {
            pc: unread(&row, row.contact.read.pc),
            mobile: unread(&row, row.contact.read.mobile),
        };
        Self {
            peer: row.contact.peer,
            last: last.and_then(|last| last_item(last, full, conversation)),
            last_mid,
            chg: row.contact.chg.get(),
            flags: row.flags().into(),
            unread,
            read_mid: ByClass {
                pc: read.pc.get(),
                mobile: read.mobile.get(),
            },
        }
    }
}

/// The number of messages of the peer after the last one read. A note to oneself is never unread.
fn unread(row: &ContactRow, read: ReadUpTo) -> Option<i64> {
    if row.contact.uid == row.contact.peer {
        return Some(0);
    }
    let unread = row.contact.peer_n.get() - read.n?.get();
    Some(unread.max(0))
}
