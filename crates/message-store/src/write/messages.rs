use std::collections::{BTreeMap, BTreeSet};

use schemas::{GroupId, Ordinal, Partition, TableNumber, UserId};

use super::{
    by_table, changes, groups,
    transaction::{Removal, RemovedKeys, Transaction},
};
use crate::{
    ChangeRow, GroupDelta, GroupMemberRow, MessageRow, MessageState, MessageStore, Month,
    OffsetUpdate, Shard, Sink, StoreError,
    conversation::{Kind, peer_number},
    datetime,
    multi_row::{Insert, MultiRow, Preparation},
    names::Table,
    schema,
};

/// What a batch changes in conversations and groups, of one database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConversationRows {
    /// Rows of `chat_msg_<n>` and `group_msg_<n>`.
    pub messages: Vec<MessageRow>,
    /// Rows of `msg_change_<n>`, with their effect on the messages. A change may be of one of [`messages`](Self::messages).
    pub changes: Vec<ChangeRow>,
    /// Rows of `group_<n>`. Settings and members are those of the event that is last in the log.
    pub groups: BTreeMap<GroupId, GroupDelta>,
    /// Rows of `group_member_<n>`.
    pub members: BTreeMap<(GroupId, UserId), GroupMemberRow>,
}

impl ConversationRows {
    /// Drops the rows of these partitions.
    pub fn forget(&mut self, partitions: &[Partition]) {
        let is_kept = |partition: Partition| !partitions.contains(&partition);
        self.messages
            .retain(|row| is_kept(row.conversation().partition()));
        self.changes
            .retain(|row| is_kept(row.conversation.partition()));
        self.groups.retain(|gid, _| is_kept(gid.partition()));
        self.members.retain(|(gid, _), _| is_kept(gid.partition()));
    }

    /// How many rows it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len() + self.changes.len() + self.groups.len() + self.members.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl MessageStore {
    /// Inserts messages, stores changes, merges groups and their members, and updates the offsets of [`Sink::Messages`], all or nothing. Messages and
    /// changes may be in any order. A month that is missing is created; messages and changes of months that were dropped are left out.
    ///
    /// Rows that exist although the offset says that they do not are replaced by the rows with their ids. A recalled message stays without a text.
    ///
    /// # Errors
    /// [`StoreError::Moved`] if an offset is not the expected one; fatal if a row exists that no offset update passes over, or a row belongs to
    /// another database.
    pub async fn write_messages(
        &self,
        shard: Shard,
        topic: &str,
        rows: &ConversationRows,
        updates: &[OffsetUpdate],
    ) -> Result<(), StoreError> {
        let batch = Batch::new(self, shard, rows, updates)?;
        let target = (Sink::Messages, topic);
        let outcome = batch.transaction(self, shard, target)?.commit(self);
        match outcome.await {
            Err(error) if error.is_month_missing() => {
                let months = batch.months();
                if !schema::create_requested_months(self, shard, &months).await? {
                    return Err(error);
                }
                batch.transaction(self, shard, target)?.commit(self).await
            }
            outcome => outcome,
        }
    }
}

/// A row with its table's number and its month.
type Dated<'a> = (TableNumber, Month, &'a MessageRow);

/// Rows by table, in the order in which every writer locks them.
struct Batch<'a> {
    messages: Vec<Dated<'a>>,
    changes: BTreeMap<TableNumber, Vec<&'a ChangeRow>>,
    groups: BTreeMap<TableNumber, Vec<(i64, &'a GroupDelta)>>,
    members: BTreeMap<TableNumber, Vec<&'a GroupMemberRow>>,
    updates: &'a [OffsetUpdate],
}

impl<'a> Batch<'a> {
    fn new(
        store: &MessageStore,
        shard: Shard,
        rows: &'a ConversationRows,
        updates: &'a [OffsetUpdate],
    ) -> Result<Self, StoreError> {
        let table_of = |row: &MessageRow| row.conversation().partition().into();
        let by_number = by_table(store, shard, &rows.messages, table_of, |row| {
            let (kind, is_changed) = columns_of(row);
            let columns = i64::from(kind.to_column()) * 2 + i64::from(is_changed);
            (columns, row.id)
        })?;
        let mut messages = Vec::with_capacity(rows.messages.len());
        for (n, rows) in by_number {
            for row in rows {
                messages.push((n, Month::of(row.ts)?, row));
            }
        }
        let table_of = |row: &ChangeRow| row.conversation.partition().into();
        let changes = by_table(store, shard, &rows.changes, table_of, |row| {
            (Kind::of(row.conversation).to_column().into(), row.id)
        })?;
        let mut groups: BTreeMap<TableNumber, Vec<_>> = BTreeMap::new();
        for (gid, row) in &rows.groups {
            let of_table = groups.entry(gid.partition().into()).or_default();
            of_table.push((gid.get(), row));
        }
        let table_of = |row: &GroupMemberRow| row.gid.partition().into();
        let sort_key = |row: &GroupMemberRow| (row.gid.get(), row.uid.get());
        Ok(Self {
            messages,
            changes,
            groups,
            members: by_table(store, shard, rows.members.values(), table_of, sort_key)?,
            updates,
        })
    }

    /// The rows of months that are kept, and the offset updates.
    fn transaction(
        &self,
        store: &MessageStore,
        shard: Shard,
        target: (Sink, &str),
    ) -> Result<Transaction, StoreError> {
        let kept_from = store.known_kept_from(shard);
        let (mut statements, mut removals) = (Vec::new(), Vec::new());
        self.add_messages(store, kept_from, &mut statements, &mut removals)?;
        self.add_changes(store, kept_from, &mut statements, &mut removals)?;
        for (n, rows) in &self.groups {
            let table = store.names().table(Table::Group, *n);
            statements.extend(groups::merge_settings(&table, rows)?);
            statements.extend(groups::merge_last(&table, rows)?);
        }
        for (n, rows) in &self.members {
            let table = store.names().table(Table::GroupMember, *n);
            statements.extend(groups::merge_members(&table, rows)?);
        }
        let transaction = Transaction::new(store, shard, target, self.updates, statements)?;
        Ok(transaction.replacing(removals))
    }

    fn add_messages(
        &self,
        store: &MessageStore,
        kept_from: Option<Month>,
        statements: &mut Vec<MultiRow>,
        removals: &mut Vec<Removal>,
    ) -> Result<(), StoreError> {
        let is_kept = |(_, month, _): &&Dated<'_>| Some(*month) >= kept_from;
        let kept: Vec<Dated<'_>> = self.messages.iter().filter(is_kept).copied().collect();
        let group = |(n, month, row): &Dated<'_>| (*n, *month, columns_of(row));
        for rows in kept.chunk_by(|a, b| group(a) == group(b)) {
            let (n, month, (kind, is_changed)) = group(&rows[0]);
            let table = store.names().table(kind.messages(), n);
            // Without the month, the first range would silently take any older row.
            let target = format!("{table} PARTITION ({})", month.name());
            statements.extend(insert(&target, kind, is_changed, rows)?);
            let keys = RemovedKeys::Messages {
                kind,
                ids: rows.iter().map(|(_, _, row)| row.id).collect(),
                changes: store.names().table(Table::MsgChange, n),
            };
            removals.extend(self.removal(n, table, keys));
        }
        Ok(())
    }

    fn add_changes(
        &self,
        store: &MessageStore,
        kept_from: Option<Month>,
        statements: &mut Vec<MultiRow>,
        removals: &mut Vec<Removal>,
    ) -> Result<(), StoreError> {
        let kind_of = |row: &&ChangeRow| Kind::of(row.conversation);
        for (n, rows) in &self.changes {
            for rows in rows.chunk_by(|a, b| kind_of(a) == kind_of(b)) {
                let table = store.names().table(Table::MsgChange, *n);
                let (inserts, keys) = changes::inserts(&table, rows, kept_from)?;
                statements.extend(inserts);
                removals.extend(self.removal(*n, table, keys));
                let messages = store.names().table(kind_of(&rows[0]).messages(), *n);
                statements.extend(changes::updates(&messages, rows)?);
            }
        }
        Ok(())
    }

    /// The months of the messages, by the number of their tables.
    fn months(&self) -> BTreeMap<TableNumber, BTreeSet<Month>> {
        let mut months: BTreeMap<TableNumber, BTreeSet<Month>> = BTreeMap::new();
        for (n, month, _) in &self.messages {
            months.entry(*n).or_default().insert(*month);
        }
        months
    }

    /// The existing rows with these keys, which are not valid: rows are committed with the offset, so the offset was lost or set back. The rows of this batch
    /// are those of the log (ADR 0006). `None` if the offset of their partition is not updated.
    fn removal(&self, n: TableNumber, table: String, keys: RemovedKeys) -> Option<Removal> {
        let mut updates = self.updates.iter();
        let update = updates.find(|update| TableNumber::from(update.partition) == n)?;
        Some(Removal {
            table,
            span: update.from.next.get()..update.to.next.get(),
            keys,
        })
    }
}

/// The columns of a row: those of its kind and, for a changed message, those that only a changed message has.
fn columns_of(row: &MessageRow) -> (Kind, bool) {
    let is_changed = row.state != MessageState::Shown || row.edited_ts.is_some();
    (Kind::of(row.conversation()), is_changed)
}

fn insert(
    target: &str,
    kind: Kind,
    is_changed: bool,
    rows: &[Dated<'_>],
) -> Result<Vec<MultiRow>, StoreError> {
    let columns = match (kind, is_changed) {
        (Kind::Direct, false) => "id, srcid, destid, mid, msg, ts, client_msg_id, hashvalue, n",
        (Kind::Direct, true) => {
            "id, srcid, destid, mid, msg, ts, client_msg_id, hashvalue, n, state, edited_ts"
        }
        (Kind::Group, false) => "id, srcid, gid, mid, msg, ts, client_msg_id",
        (Kind::Group, true) => "id, srcid, gid, mid, msg, ts, client_msg_id, state, edited_ts",
    };
    let insert = Insert {
        table: target,
        columns,
        tail: "",
        sizes: Preparation::Kept,
    };
    insert.statements(rows, |arguments, (n, _, row)| {
        let mut arguments = arguments
            .with(row.id)
            .with(row.srcid.get())
            .with(peer_number(row.conversation(), row.srcid))
            .with(row.mid.get())
            .with(row.msg.as_str())
            .with(datetime::to_column(row.ts)?)
            .with(row.client_msg_id.as_str());
        if kind == Kind::Direct {
            arguments = arguments.with(n.get()).with(row.ordinal.map(Ordinal::get));
        }
        if is_changed {
            let edited_ts = row.edited_ts.map(datetime::to_column).transpose()?;
            arguments = arguments.with(row.state.to_column()).with(edited_ts);
        }
        Ok(arguments)
    })
}
