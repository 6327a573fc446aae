//! The rows of a sync: what has changed for a user, in the order of their keys, and how far the stores were.

use std::collections::{BTreeMap, BTreeSet};

use message_store::{ContactRow, GroupHead, Membership, ReadTx, Shard, Sink};
use schemas::{
    DirectConversation, GroupId, Partition, StoredProfile, UserId,
    sync::{Applied, RowKey, SyncCursor},
};

use crate::{
    after::RequiredWatermarks,
    call::Call,
    error::{Lag, LaggingStore, QueryError},
    listed_group::ListedGroup,
    newest_groups::VERY_MANY,
    snapshot::Snapshot,
};

/// How many memberships are read at a time.
const MEMBERSHIPS_AT_ONCE: usize = 1_000;

/// Up to this many moved groups of a table are read, with or without the user as a member, to find the user's groups among them.
const MOVED_GROUPS: u32 = 200;

/// A row of an answer.
pub(crate) enum Row {
    Contact(ContactRow),
    Group(ListedGroup),
    Left(GroupId),
}

impl Row {
    pub(crate) fn as_group(&mut self) -> Option<&mut ListedGroup> {
        match self {
            Self::Group(group) => Some(group),
            Self::Contact(_) | Self::Left(_) => None,
        }
    }

    pub(crate) fn key(&self) -> RowKey {
        match self {
            Self::Contact(row) => {
                let (uid, peer) = (row.contact.uid, row.contact.peer);
                let partition = DirectConversation::new(uid, peer).partition();
                (partition, false, peer.get())
            }
            Self::Group(group) => key_of(group.head.gid),
            Self::Left(gid) => key_of(*gid),
        }
    }
}

fn key_of(gid: GroupId) -> RowKey {
    (gid.partition(), true, gid.get())
}

/// Rows of a page, in the order of their keys.
pub(crate) struct Page {
    pub(crate) rows: Vec<Row>,
    /// The last row's key, if there are more rows.
    pub(crate) end: Option<RowKey>,
    /// The user's own profile, if it has changed.
    pub(crate) profile: Option<StoredProfile>,
    pub(crate) applied: Applied,
}

/// Reads a page of up to `limit` rows, with no more than [`MEMBERSHIPS_AT_ONCE`] of the user's memberships in memory.
///
/// # Errors
/// [`QueryError::Lagging`] if a store has not applied what the device knows (PROTOCOL Y7), [`QueryError::Forgotten`] if a store has deleted what the
/// device has to know (Y8); those of the stores.
pub(crate) async fn read(
    call: &Call,
    uid: UserId,
    cursor: &SyncCursor,
    limit: usize,
) -> Result<Page, QueryError> {
    let mut read = Reading {
        call,
        uid,
        cursor,
        applied: Applied::default(),
    };
    let chunk = match cursor.full {
        true => MEMBERSHIPS_AT_ONCE.min(limit + 1),
        false => MEMBERSHIPS_AT_ONCE,
    };
    let mut tx = read.open_users().await?;
    let (profile, is_in_very_many) = tx.sync_head(uid, VERY_MANY).await?;
    let profile = profile.filter(|row| read.has_moved(row));
    let mut rows = read.contacts(&mut tx, limit + 1).await?;
    if !cursor.full && is_in_very_many {
        let memberships = read.moved_memberships(&mut tx).await?;
        // This snapshot's connection may be the one that the groups need.
        drop(tx);
        if let Some(groups) = read.moved_groups(memberships).await? {
            rows.extend(groups);
            rows.sort_by_key(Row::key);
            return Ok(read.page(rows, profile, limit));
        }
        tx = read.open_users().await?;
    }
    let mut after = cursor.begin();
    loop {
        let memberships = read.memberships(&mut tx, after, chunk).await?;
        // This snapshot's connection may be the one that the groups need.
        drop(tx);
        let seen_to = memberships.last().map(|row| key_of(row.gid));
        let seen_to = seen_to.filter(|_| memberships.len() == chunk);
        rows.extend(read.groups(memberships).await?);
        rows.sort_by_key(Row::key);
        let Some(seen_to) = seen_to else {
            break;
        };
        if rows.get(limit).is_some_and(|row| row.key() <= seen_to) {
            break;
        }
        after = seen_to;
        tx = read.open_users().await?;
    }
    Ok(read.page(rows, profile, limit))
}

struct Reading<'a> {
    call: &'a Call,
    uid: UserId,
    cursor: &'a SyncCursor,
    applied: Applied,
}

impl Reading<'_> {
    fn page(self, mut rows: Vec<Row>, profile: Option<StoredProfile>, limit: usize) -> Page {
        let more = rows.len() > limit;
        rows.truncate(limit);
        Page {
            end: rows.last().filter(|_| more).map(Row::key),
            rows,
            profile,
            applied: self.applied,
        }
    }

    /// A snapshot of the user's database.
    async fn open_users(&mut self) -> Result<Snapshot, QueryError> {
        let shard = self.call.store.layout().shard_of_user(self.uid);
        let all: Vec<Partition> = Partition::all().collect();
        let (mut tx, _) = self.open(shard, Sink::Contacts, &all).await?;
        let topic = &self.call.events_topic;
        if self
            .cursor
            .precedes(&tx.forgotten_below(Sink::Contacts, topic).await?)
        {
            return Err(QueryError::Forgotten);
        }
        Ok(tx)
    }

    /// A snapshot of a database, and how far the sink was in it.
    async fn open(
        &mut self,
        shard: Shard,
        sink: Sink,
        partitions: &[Partition],
    ) -> Result<(Snapshot, Applied), QueryError> {
        let mut tx = self.call.snapshot(shard).await?;
        let topic = &self.call.events_topic;
        let found = tx.resume_offsets(sink, topic, partitions).await?;
        let found = found.into_iter();
        let of_store: Applied = found.map(|(partition, at)| (partition, at.next)).collect();
        if let Some((partition, next)) = self.cursor.first_behind(&of_store) {
            return Err(QueryError::Lagging(Lag {
                store: LaggingStore::Sink(shard, sink),
                missing: RequiredWatermarks::below(partition, next),
            }));
        }
        self.applied.add(of_store.clone());
        Ok((tx, of_store))
    }

    /// The profile is on every page up to the end of its partition: the partition's entry in the token moves only with the last of these pages.
    fn has_moved(&self, profile: &StoredProfile) -> bool {
        let partition = Partition::of_user(self.uid);
        let (first, ..) = self.cursor.begin();
        partition >= first && profile.event_offset >= self.cursor.least_pos(partition)
    }

    async fn contacts(&self, tx: &mut ReadTx, limit: usize) -> Result<Vec<Row>, QueryError> {
        let (partition, in_groups, after) = self.cursor.begin();
        // If the groups of a partition have begun, its peers are done.
        let after = if in_groups { i64::MAX } else { after };
        let since = |partition| self.cursor.least_pos(partition);
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let rows = tx.contacts_since(self.uid, since, (partition, after), limit);
        Ok(rows.await?.into_iter().map(Row::Contact).collect())
    }

    async fn memberships(
        &self,
        tx: &mut ReadTx,
        (partition, in_groups, after): RowKey,
        limit: usize,
    ) -> Result<Vec<Membership>, QueryError> {
        let after = if in_groups { after } else { 0 };
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let rows = tx.memberships_by_partition(self.uid, (partition, after), limit);
        Ok(rows.await?)
    }

    /// The rows of these groups that have changed: the membership, or the group (PROTOCOL Y4). A group comes with a later sync if it is not in its
    /// database yet, or if that database has not applied that the user joined: the token's entry is then below that event. A group counts as left if
    /// its database has applied that the user left and the user's database has not: the token covers messages of the group that no row announces.
    async fn groups(&mut self, memberships: Vec<Membership>) -> Result<Vec<Row>, QueryError> {
        let (heads, left) = self.heads(&memberships).await?;
        Ok(self.rows_of(memberships, heads, &left))
    }

    fn rows_of(
        &self,
        memberships: Vec<Membership>,
        mut heads: BTreeMap<GroupId, GroupHead>,
        left: &BTreeSet<GroupId>,
    ) -> Vec<Row> {
        let (cursor, mut rows) = (self.cursor, Vec::new());
        for row in memberships {
            let has_moved = row.event_offset >= cursor.least_pos(row.gid.partition());
            let has_left = match row.is_member() {
                true => left.contains(&row.gid),
                false => has_moved,
            };
            if has_left && !cursor.full {
                rows.push(Row::Left(row.gid));
            } else if row.is_member() {
                let head = heads.remove(&row.gid);
                rows.extend(head.map(|head| Row::Group(ListedGroup::new(head, row))));
            }
        }
        rows
    }

    /// The memberships that have moved; `None` if they are very many.
    async fn moved_memberships(
        &self,
        tx: &mut ReadTx,
    ) -> Result<Option<Vec<Membership>>, QueryError> {
        let since = |partition| self.cursor.least_pos(partition);
        let moved = tx.memberships_since(self.uid, since, VERY_MANY).await?;
        Ok(Some(moved).filter(|moved| moved.len() < VERY_MANY as usize))
    }

    /// As [`Self::groups`], for a user in very many groups: finds those that have moved among the moved groups of all users. `None` if these, or the
    /// memberships that have moved, are too many.
    async fn moved_groups(
        &mut self,
        moved: Option<Vec<Membership>>,
    ) -> Result<Option<Vec<Row>>, QueryError> {
        let Some(mut memberships) = moved else {
            return Ok(None);
        };
        let (mut heads, mut left) = (BTreeMap::new(), BTreeSet::new());
        let layout = self.call.store.layout();
        for shard in layout.shards() {
            let of_shard = memberships.iter().map(|row| row.gid);
            let gids: Vec<GroupId> = of_shard
                .filter(|gid| layout.shard_of(gid.partition()) == shard)
                .collect();
            let Some((found, gone)) = self.moved_heads(shard, &gids).await? else {
                return Ok(None);
            };
            heads.extend(found.into_iter().map(|head| (head.gid, head)));
            left.extend(gone);
        }
        let known: BTreeSet<GroupId> = memberships.iter().map(|row| row.gid).collect();
        let others = heads.keys().chain(&left).filter(|gid| !known.contains(gid));
        let others: Vec<GroupId> = others.copied().collect();
        let mut tx = self.open_users().await?;
        memberships.extend(tx.memberships_of(self.uid, &others).await?);
        let begin = self.cursor.begin();
        let mut rows = self.rows_of(memberships, heads, &left);
        rows.retain(|row| row.key() > begin);
        Ok(Some(rows))
    }

    /// From one database: the user's groups that have moved and those of `gids`; and the groups that, as far as this database knows, the user has
    /// left.
    async fn moved_heads(
        &mut self,
        shard: Shard,
        gids: &[GroupId],
    ) -> Result<Option<(Vec<GroupHead>, Vec<GroupId>)>, QueryError> {
        let layout = self.call.store.layout();
        let partitions: Vec<Partition> = layout.source_partitions(Sink::Messages, shard).collect();
        let users = self.applied.clone();
        let (mut tx, of_store) = self.open(shard, Sink::Messages, &partitions).await?;
        let since = |partition| self.cursor.least_pos(partition);
        let left_since = |partition| users.get(partition).get();
        let has_events = |partition: &Partition| of_store.get(*partition).get() > since(*partition);
        let partitions: Vec<Partition> = partitions.into_iter().filter(has_events).collect();
        let moved = tx.moved_groups(self.uid, &partitions, since, left_since, MOVED_GROUPS);
        let Some((mut heads, left)) = moved.await? else {
            return Ok(None);
        };
        heads.extend(tx.group_heads(self.uid, gids).await?);
        Ok(Some((heads, left)))
    }

    /// From each database that has some of these groups: the groups that have moved, and those whose membership has moved; and the groups that, as
    /// far as these databases know, the user has left.
    async fn heads(
        &mut self,
        memberships: &[Membership],
    ) -> Result<(BTreeMap<GroupId, GroupHead>, BTreeSet<GroupId>), QueryError> {
        let mut by_shard: BTreeMap<Shard, Vec<&Membership>> = BTreeMap::new();
        for row in memberships {
            let shard = self.call.store.layout().shard_of(row.gid.partition());
            by_shard.entry(shard).or_default().push(row);
        }
        let users = self.applied.clone();
        let (mut heads, mut left) = (BTreeMap::new(), BTreeSet::new());
        for (shard, rows) in by_shard {
            let partitions: BTreeSet<Partition> =
                rows.iter().map(|row| row.gid.partition()).collect();
            let partitions: Vec<Partition> = partitions.into_iter().collect();
            let (mut tx, groups) = self.open(shard, Sink::Messages, &partitions).await?;
            let members = rows.iter().filter(|row| row.is_member());
            let members: Vec<GroupId> = members.map(|row| row.gid).collect();
            let found = self.heads_of(&mut tx, rows).await?;
            heads.extend(found.into_iter().map(|head| (head.gid, head)));
            let since = |partition| users.get(partition).get();
            let lacking = members.into_iter().filter(|gid| {
                let is_ahead = groups.get(gid.partition()) > users.get(gid.partition());
                is_ahead && !heads.contains_key(gid)
            });
            let lacking: Vec<GroupId> = lacking.collect();
            left.extend(tx.left_groups(self.uid, &lacking, since).await?);
        }
        Ok((heads, left))
    }

    async fn heads_of(
        &self,
        tx: &mut ReadTx,
        rows: Vec<&Membership>,
    ) -> Result<Vec<GroupHead>, QueryError> {
        let least_pos = |partition| self.cursor.least_pos(partition);
        let members = rows.into_iter().filter(|row| row.is_member());
        let (moved, others): (Vec<&Membership>, Vec<&Membership>) =
            members.partition(|row| row.event_offset >= least_pos(row.gid.partition()));
        let gids = |rows: Vec<&Membership>| rows.iter().map(|row| row.gid).collect::<Vec<_>>();
        let (moved, others) = (gids(moved), gids(others));
        let mut heads = tx.group_heads(self.uid, &moved).await?;
        heads.extend(tx.group_heads_since(self.uid, &others, least_pos).await?);
        Ok(heads)
    }
}
