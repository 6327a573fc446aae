use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use access::Caller;
use axum::{Json, extract::State};
use message_store::{ContactRow, GroupHead, Membership, ReadTx, Shard, Sink};
use problem::{Path, Problem, Query};
use schemas::{
    DirectConversation, GroupId, NextOffset, Partition, PartitionMap, SyncPage, SyncToken,
    TableNumber, UserId,
};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};
use utoipa::{IntoParams, ToSchema};

use super::groups::GroupItem;
use crate::{
    after::{AsOf, RequiredWatermarks},
    conversation_item::ConversationItem,
    deadline::Deadline,
    error::QueryError,
    listed_group::{self, ListedGroup},
    parameters::{Switch, SyncLimit, TimeoutMs, UserPath},
    profiles::{self, ProfileItem, ProfileItems},
    state::QueryApi,
};

/// How many memberships one statement reads.
const MEMBERSHIPS_AT_ONCE: u32 = 1_000;

/// Between two looks at a store that is behind the token.
const PAUSE: Duration = Duration::from_millis(20);

/// Since when, and how much at a time.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SyncQuery {
    /// `next` of the sync before, or the newest token of a gateway, as it came. Everything where absent.
    #[param(max_length = 512)]
    since: Option<String>,
    /// How many conversations and groups at most; 200 where absent.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 1_000)]
    limit: Option<SyncLimit>,
    /// Whether the answer has the profiles of the users in it, as of now: `true` or `false`.
    #[serde(default)]
    #[param(value_type = Option<bool>)]
    profiles: Switch,
    /// How long the call may take, milliseconds; 5000 where absent.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 30_000)]
    timeout_ms: Option<TimeoutMs>,
}

/// What has changed for a user since a token.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SyncAnswer {
    /// Direct conversations in which something has changed for the user, as they are now.
    conversations: Vec<SyncedConversation>,
    /// Groups of the user in which something has changed, as they are now.
    groups: Vec<GroupItem>,
    /// Groups that the user has left.
    #[schema(value_type = Vec<String>, example = json!(["5001"]))]
    left: Vec<GroupId>,
    /// `since` of the next sync.
    #[schema(value_type = String, max_length = 512)]
    next: SyncToken,
    /// Whether there is more now: the same call with `next` goes on.
    more: bool,
    /// Whether this is everything, and takes the place of what the device has, and not what has changed. All pages of one sync say the same.
    full: bool,
    /// With `profiles=true`: by user; users who have set none are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, ProfileItem>>)]
    profiles: Option<ProfileItems>,
}

/// A direct conversation. Its newest message has the first 200 characters of the text.
#[derive(Debug, Serialize, ToSchema)]
struct SyncedConversation {
    #[serde(flatten)]
    conversation: ConversationItem,
    /// The user has deleted the contact, and nothing came since; absent where not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(value_type = Option<bool>)]
    deleted: bool,
}

/// Sync a device
///
/// What has changed for a user since a token: rows that were touched by events at or above it, as they are now. A device keeps the token of the
/// last answer; one that was made before `epoch raise` counts as none. The answer waits until the stores have come as far as the token.
#[utoipa::path(
    get,
    path = "/v1/users/{uid}/sync",
    tag = "query",
    params(UserPath, SyncQuery),
    responses(
        (status = 200, description = "What has changed; nothing is not an error.", body = SyncAnswer),
        (status = 400, description = "A parameter is not as it should be.", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "Too many calls are under way, or too many of the caller's.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "MySQL does not answer.", body = Problem, content_type = "application/problem+json"),
        (status = 504, description = "The stores have not come as far as the token in time.", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn get_sync(
    State(api): State<Arc<QueryApi>>,
    caller: Caller,
    Path(UserPath { uid }): Path<UserPath>,
    Query(query): Query<SyncQuery>,
) -> Result<Json<SyncAnswer>, QueryError> {
    caller.may_read(uid)?;
    let deadline = Deadline::in_time(query.timeout_ms);
    let limit = query.limit.unwrap_or_default().get();
    let begin = Begin::new(query.since.as_deref(), api.epoch.get())?;
    let read = loop {
        match deadline.bound(read(&api, uid, &begin, limit)).await?? {
            Some(read) => break read,
            None if Instant::now() + PAUSE >= deadline.at() => return Err(deadline.behind_token()),
            None => sleep(PAUSE).await,
        }
    };
    let Read { mut rows, applied } = read;
    let stopped_at = (rows.len() > limit).then(|| {
        rows.truncate(limit);
        rows.last().map(Row::place)
    });
    let next = begin.next(stopped_at.flatten(), &applied);
    answer(
        &api,
        uid,
        rows,
        (next, begin.full),
        query.profiles,
        deadline,
    )
    .await
}

/// Where a page of a sync begins.
struct Begin {
    token: SyncToken,
    full: bool,
}

/// A place in the order of the rows: the partition, whether it is a group, peer or gid.
type Place = (Partition, bool, i64);

impl Begin {
    fn new(since: Option<&str>, epoch: u32) -> Result<Self, Problem> {
        let token: Option<SyncToken> =
            since
                .map(str::parse)
                .transpose()
                .map_err(|error: schemas::InvalidValue| {
                    let words = error.to_string();
                    let wrong = words
                        .split_once("; must be ")
                        .map_or(&*words, |(wrong, _)| wrong);
                    Problem::invalid_field("since", wrong, "the token of an answer, as it came")
                })?;
        let token = token.filter(|token| token.epoch() == epoch);
        let full = token
            .as_ref()
            .is_none_or(|token| token.page().is_some_and(|page| page.full));
        let nothing = || SyncToken::new(epoch, &PartitionMap::new());
        Ok(Self {
            token: token.unwrap_or_else(nothing),
            full,
        })
    }

    /// A row is returned if its `pos` is at least this (Y3). Rows from before there was one are returned by a full sync.
    fn least_pos(&self, partition: Partition) -> i64 {
        match self.full {
            true => -1,
            false => self.token.get(partition).get(),
        }
    }

    /// Rows behind this place are still to be returned; all where it is `None`.
    fn place(&self) -> Option<Place> {
        let page = self.token.page()?;
        Some((page.partition, page.in_groups, page.after))
    }

    /// The token after a page. Each partition's entry is how far the stores were when it was begun (Y2, Y6).
    fn next(&self, stopped_at: Option<Place>, applied: &PartitionMap<NextOffset>) -> SyncToken {
        let mut token = self.token.clone().with_page(None);
        let applied_to = |partition: Partition| match self.token.page() {
            Some(page) if page.partition == partition => page.applied,
            _ => applied.get(partition).copied().unwrap_or_default(),
        };
        let begun = self.token.page().map(|page| page.partition);
        let done = |partition: &Partition| {
            Some(*partition) >= begun && stopped_at.is_none_or(|(at, ..)| *partition < at)
        };
        for partition in Partition::all().filter(done) {
            token.advance(partition, applied_to(partition));
        }
        token.with_page(stopped_at.map(|(partition, in_groups, after)| SyncPage {
            partition,
            in_groups,
            after,
            applied: applied_to(partition),
            full: self.full,
        }))
    }
}

/// A row of an answer.
enum Row {
    Contact(ContactRow),
    Group(ListedGroup),
    Left(GroupId),
}

impl Row {
    fn place(&self) -> Place {
        match self {
            Self::Contact(row) => {
                let (uid, peer) = (row.contact.uid, row.contact.peer);
                (
                    DirectConversation::new(uid, peer).partition(),
                    false,
                    peer.get(),
                )
            }
            Self::Group(group) => (group.head.gid.partition(), true, group.head.gid.get()),
            Self::Left(gid) => (gid.partition(), true, gid.get()),
        }
    }
}

/// Rows in the order of their places, more than the limit if there are, and how far all stores that they were read from were (Y5).
struct Read {
    rows: Vec<Row>,
    applied: PartitionMap<NextOffset>,
}

/// `None` where a store is behind the token (Y7).
async fn read(
    api: &QueryApi,
    uid: UserId,
    begin: &Begin,
    limit: usize,
) -> Result<Option<Read>, QueryError> {
    let shard = api.store.layout().shard_of(TableNumber::of_user(uid));
    let mut tx = api.store.snapshot(shard).await?;
    let all: Vec<Partition> = Partition::all().collect();
    let mut applied = applied_to(api, &mut tx, Sink::Contacts, &all).await?;
    let is_behind = |applied: &PartitionMap<NextOffset>| {
        applied
            .iter()
            .any(|(partition, applied)| *applied < begin.token.get(partition))
    };
    if is_behind(&applied) {
        return Ok(None);
    }
    // The peers of a partition whose groups are under way are done.
    let after = begin
        .place()
        .map(|(partition, in_groups, after)| match in_groups {
            true => (partition, i64::MAX),
            false => (partition, after),
        });
    let contacts = tx
        .contacts_since(uid, |p| begin.least_pos(p), after, limit + 1)
        .await?;
    let memberships = memberships(&mut tx, uid).await?;
    // Its connection is needed for the groups.
    drop(tx);
    let wanted = memberships
        .into_iter()
        .filter(|row| Some((row.gid.partition(), true, row.gid.get())) > begin.place());
    let (members, left): (Vec<_>, Vec<_>) = wanted.partition(Membership::is_member);
    let heads = heads(api, uid, &members, &mut applied).await?;
    if is_behind(&applied) {
        return Ok(None);
    }
    let mut rows: Vec<Row> = contacts.into_iter().map(Row::Contact).collect();
    rows.extend(changed_groups(begin, members, heads));
    if !begin.full {
        let left = left.into_iter();
        let left = left.filter(|row| row.pos >= begin.least_pos(row.gid.partition()));
        rows.extend(left.map(|row| Row::Left(row.gid)));
    }
    rows.sort_by_key(Row::place);
    Ok(Some(Read { rows, applied }))
}

async fn applied_to(
    api: &QueryApi,
    tx: &mut ReadTx,
    sink: Sink,
    partitions: &[Partition],
) -> Result<PartitionMap<NextOffset>, QueryError> {
    let resume = tx
        .resume_offsets(sink, &api.events_topic, partitions)
        .await?;
    let of = |partition: &Partition| resume.get(*partition).copied().unwrap_or_default().next;
    Ok(partitions
        .iter()
        .map(|partition| (*partition, of(partition)))
        .collect())
}

async fn memberships(tx: &mut ReadTx, uid: UserId) -> Result<Vec<Membership>, QueryError> {
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let rows = tx.memberships(uid, after, MEMBERSHIPS_AT_ONCE).await?;
        let is_last = rows.len() < MEMBERSHIPS_AT_ONCE as usize;
        after = rows.last().map(|row| row.gid);
        all.extend(rows);
        if is_last {
            return Ok(all);
        }
    }
}

/// The heads of the groups, which are in their own databases; lowers `applied` where one of these has not come as far (Y2).
async fn heads(
    api: &QueryApi,
    uid: UserId,
    members: &[Membership],
    applied: &mut PartitionMap<NextOffset>,
) -> Result<BTreeMap<GroupId, GroupHead>, QueryError> {
    let mut by_shard: BTreeMap<Shard, Vec<GroupId>> = BTreeMap::new();
    for row in members {
        let shard = api.store.layout().shard_of(row.gid.partition());
        by_shard.entry(shard).or_default().push(row.gid);
    }
    let mut heads = BTreeMap::new();
    for (shard, gids) in by_shard {
        let mut tx = api.store.snapshot(shard).await?;
        let partitions: BTreeSet<Partition> = gids.iter().map(|gid| gid.partition()).collect();
        let partitions: Vec<Partition> = partitions.into_iter().collect();
        let of_groups = applied_to(api, &mut tx, Sink::Messages, &partitions).await?;
        for (partition, of_groups) in of_groups {
            let lowest = applied.get_or_insert_with(partition, || of_groups);
            *lowest = of_groups.min(*lowest);
        }
        let found = tx.group_heads(uid, &gids).await?;
        heads.extend(found.into_iter().map(|head| (head.gid, head)));
    }
    Ok(heads)
}

/// Those whose membership or head has moved (Y4). What is not in its database yet comes at the next sync: the token waits for it.
fn changed_groups(
    begin: &Begin,
    members: Vec<Membership>,
    mut heads: BTreeMap<GroupId, GroupHead>,
) -> impl Iterator<Item = Row> {
    let groups = members.into_iter().filter_map(move |membership| {
        let head = heads.remove(&membership.gid)?;
        Some(ListedGroup::new(head, membership))
    });
    groups
        .filter(|group| {
            let least = begin.least_pos(group.head.gid.partition());
            group.membership.pos >= least || group.head.pos >= least
        })
        .map(Row::Group)
}

async fn answer(
    api: &QueryApi,
    uid: UserId,
    mut rows: Vec<Row>,
    (next, full): (SyncToken, bool),
    with_profiles: Switch,
    deadline: Deadline,
) -> Result<Json<SyncAnswer>, QueryError> {
    let groups = rows.iter_mut().filter_map(|row| match row {
        Row::Group(group) => Some(group),
        Row::Contact(_) | Row::Left(_) => None,
    });
    listed_group::read_hidden(api, uid, groups, deadline).await?;
    let more = next.page().is_some();
    let mut answer = SyncAnswer {
        conversations: Vec::new(),
        groups: Vec::new(),
        left: Vec::new(),
        next,
        more,
        full,
        profiles: None,
    };
    for row in rows {
        match row {
            Row::Contact(row) => {
                let deleted = row.contact.last.is_some() && !row.is_listed();
                // There is nothing that it has to be deleted from.
                if !(deleted && full) {
                    let conversation = ConversationItem::of_contact(row, &mut BTreeMap::new());
                    answer.conversations.push(SyncedConversation {
                        conversation,
                        deleted,
                    });
                }
            }
            Row::Group(group) => answer.groups.push(group.into()),
            Row::Left(gid) => answer.left.push(gid),
        }
    }
    let users = answer
        .conversations
        .iter()
        .filter_map(|one| one.conversation.user());
    let nothing = RequiredWatermarks::default();
    let joined = profiles::join(
        api,
        with_profiles,
        users.chain([uid]),
        &nothing,
        deadline,
        AsOf::default(),
    );
    answer.profiles = joined.await?.0;
    Ok(Json(answer))
}
