use std::collections::{BTreeMap, BTreeSet};

use schemas::TableNumber;

use super::{
    by_table, changes, groups,
    transaction::{Removal, RemovedKeys, Transaction},
};
use crate::{
    ChangeRow, GroupChangeRow, GroupDelta, GroupMemberRow, GroupMessageRow, GroupRows, MessageRow,
    MessageState, MessageStore, Month, OffsetUpdate, Shard, Sink, StoreError,
    arguments::Arguments,
    datetime,
    multi_row::{Insert, MultiRow, Preparation},
    names::Table,
    schema,
};

impl MessageStore {
    /// Inserts messages, stores changes, and updates the offsets of [`Sink::Messages`], all or nothing. Both may be empty, and in any
    /// order; a change may be of a message of the same call. A month that is missing is made; messages and changes of months that were dropped
    /// are left out.
    ///
    /// Rows that are there already although the offset says that they are not are replaced by those with their ids. What was recalled stays
    /// without a text.
    ///
    /// # Errors
    /// [`StoreError::Moved`] where an offset is not what the move says; fatal where a row that no move goes over is there
    /// already, or belongs to another database.
    pub async fn write_messages(
        &self,
        shard: Shard,
        topic: &str,
        rows: &[MessageRow],
        changes: &[ChangeRow],
        updates: &[OffsetUpdate],
    ) -> Result<(), StoreError> {
        let none = GroupRows::default();
        self.write_messages_and_groups(shard, topic, (rows, changes), &none, updates)
            .await
    }

    /// The same, with what changes in groups: all or nothing. Settings and members are those of the event that is last in the log.
    ///
    /// # Errors
    /// As [`write_messages`](Self::write_messages).
    pub async fn write_messages_and_groups(
        &self,
        shard: Shard,
        topic: &str,
        (rows, changes): (&[MessageRow], &[ChangeRow]),
        groups: &GroupRows,
        updates: &[OffsetUpdate],
    ) -> Result<(), StoreError> {
        let table_of = |row: &MessageRow| row.message.conversation().partition().into();
        let sort_key = |row: &MessageRow| (i64::from(is_changed(row)), row.id);
        let sorted = by_table(self, shard, rows, table_of, sort_key)?;
        let table_of = |row: &ChangeRow| row.change.conversation().partition().into();
        let batch = Batch {
            rows: sorted
                .into_iter()
                .map(|(n, row)| Ok((n, Month::of(row.ts)?, row)))
                .collect::<Result<_, StoreError>>()?,
            changes: by_table(self, shard, changes, table_of, |row| (row.id, 0))?,
            groups: Groups::new(self, shard, groups)?,
            updates,
        };
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

struct Batch<'a> {
    rows: Vec<Dated<'a>>,
    changes: Vec<(TableNumber, &'a ChangeRow)>,
    groups: Groups<'a>,
    updates: &'a [OffsetUpdate],
}

impl Batch<'_> {
    /// The rows of months that are kept, the changes, and the offset updates.
    fn transaction(
        &self,
        store: &MessageStore,
        shard: Shard,
        target: (Sink, &str),
    ) -> Result<Transaction, StoreError> {
        let kept_from = store.known_kept_from(shard);
        let kept: Vec<Dated<'_>> = self
            .rows
            .iter()
            .filter(|(_, month, _)| Some(*month) >= kept_from)
            .copied()
            .collect();
        let (mut statements, mut removals) = (Vec::new(), Vec::new());
        let group = |(n, month, row): &Dated<'_>| (*n, *month, is_changed(row));
        for rows in kept.chunk_by(|a, b| group(a) == group(b)) {
            let (n, month, is_changed) = group(&rows[0]);
            let table = store.names().table(Table::ChatMsg, n);
            // The first range would take any older row in silence.
            let place = format!("{table} PARTITION ({})", month.name());
            statements.extend(insert(&place, is_changed, rows)?);
            let ids = rows.iter().map(|(_, _, row)| row.id).collect();
            let changes = store.names().table(Table::MsgChange, n);
            let recall = include_str!("../../sql/write/recall_again.sql");
            let keys = RemovedKeys::Messages {
                ids,
                changes,
                recall,
            };
            removals.extend(self.removal(n, table, keys));
        }
        for changes in self.changes.chunk_by(|(a, _), (b, _)| a == b) {
            let n = changes[0].0;
            let table = store.names().table(Table::MsgChange, n);
            let records = changes.iter().map(|(_, row)| (*row).into());
            let (inserts, keys) = changes::inserts(&table, records, kept_from)?;
            statements.extend(inserts);
            removals.extend(self.removal(n, table, keys));
            let messages = store.names().table(Table::ChatMsg, n);
            let places = changes.iter().map(|(_, row)| changes::place(row));
            statements.extend(changes::updates(&messages, places)?);
        }
        self.group_statements(store, kept_from, &mut statements, &mut removals)?;
        let transaction = Transaction::new(store, shard, target, self.updates, statements)?;
        Ok(transaction.replacing(removals))
    }

    fn group_statements(
        &self,
        store: &MessageStore,
        kept_from: Option<Month>,
        statements: &mut Vec<MultiRow>,
        removals: &mut Vec<Removal>,
    ) -> Result<(), StoreError> {
        let Groups {
            messages,
            changes,
            groups,
            members,
        } = &self.groups;
        let kept: Vec<_> = messages
            .iter()
            .filter(|(_, month, _)| Some(*month) >= kept_from)
            .collect();
        for rows in kept.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let (n, month, _) = rows[0];
            let table = store.names().table(Table::GroupMsg, *n);
            let place = format!("{table} PARTITION ({})", month.name());
            let rows: Vec<&GroupMessageRow> = rows.iter().map(|(_, _, row)| *row).collect();
            statements.extend(groups::insert(&place, &rows)?);
            let keys = RemovedKeys::Messages {
                ids: rows.iter().map(|row| row.id).collect(),
                changes: store.names().table(Table::MsgChange, *n),
                recall: include_str!("../../sql/write/recall_group_again.sql"),
            };
            removals.extend(self.removal(*n, table, keys));
        }
        for rows in changes.chunk_by(|(a, _), (b, _)| a == b) {
            let n = rows[0].0;
            let rows: Vec<&GroupChangeRow> = rows.iter().map(|(_, row)| *row).collect();
            let table = store.names().table(Table::MsgChange, n);
            let (inserts, keys) = groups::insert_changes(&table, &rows, kept_from)?;
            statements.extend(inserts);
            removals.extend(self.removal(n, table, keys));
            let table = store.names().table(Table::GroupMsg, n);
            statements.extend(groups::update_messages(&table, &rows)?);
        }
        for rows in groups.chunk_by(|(a, _), (b, _)| a == b) {
            let table = store.names().table(Table::Group, rows[0].0);
            let rows: Vec<(i64, &GroupDelta)> = rows.iter().map(|(_, row)| *row).collect();
            statements.extend(groups::merge_settings(&table, &rows)?);
            statements.extend(groups::merge_last(&table, &rows)?);
        }
        for rows in members.chunk_by(|(a, _), (b, _)| a == b) {
            let table = store.names().table(Table::GroupMember, rows[0].0);
            let rows: Vec<&GroupMemberRow> = rows.iter().map(|(_, row)| *row).collect();
            statements.extend(groups::merge_members(&table, &rows)?);
        }
        Ok(())
    }

    /// The months of the rows, by the number of their tables.
    fn months(&self) -> BTreeMap<TableNumber, BTreeSet<Month>> {
        let mut months: BTreeMap<TableNumber, BTreeSet<Month>> = BTreeMap::new();
        let direct = self.rows.iter().map(|(n, month, _)| (*n, *month));
        let of_groups = self.groups.messages.iter();
        for (n, month) in direct.chain(of_groups.map(|(n, month, _)| (*n, *month))) {
            months.entry(n).or_default().insert(month);
        }
        months
    }

    /// What is in the place of these rows is not the database's own truth, since rows come together with the offset: that was
    /// lost or set back. The log's rows are these (ADR 0006). `None` where their partition is not updated.
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

/// Whether it has values in the columns that a message has only once it was changed.
fn is_changed(row: &MessageRow) -> bool {
    row.state != MessageState::Shown || row.edited_ts.is_some()
}

fn insert(place: &str, is_changed: bool, rows: &[Dated<'_>]) -> Result<Vec<MultiRow>, StoreError> {
    let insert = |columns| Insert {
        table: place,
        columns,
        tail: "",
        sizes: Preparation::Kept,
    };
    if is_changed {
        insert("id, srcid, destid, mid, msg, ts, hashvalue, client_msg_id, n, state, edited_ts")
            .statements(rows, |arguments, dated| {
                let (_, _, row) = dated;
                let edited_ts = row.edited_ts.map(datetime::to_column).transpose()?;
                let state = row.state.to_column();
                Ok(bind_row(arguments, dated)?.with(state).with(edited_ts))
            })
    } else {
        insert("id, srcid, destid, mid, msg, ts, hashvalue, client_msg_id, n")
            .statements(rows, bind_row)
    }
}

/// What changes in groups, by table, in the order in which every writer locks the rows.
struct Groups<'a> {
    messages: Vec<(TableNumber, Month, &'a GroupMessageRow)>,
    changes: Vec<(TableNumber, &'a GroupChangeRow)>,
    groups: Vec<(TableNumber, (i64, &'a GroupDelta))>,
    members: Vec<(TableNumber, &'a GroupMemberRow)>,
}

impl<'a> Groups<'a> {
    fn new(store: &MessageStore, shard: Shard, rows: &'a GroupRows) -> Result<Self, StoreError> {
        let of_message = |row: &GroupMessageRow| groups::table_of(row.gid);
        let of_change = |row: &GroupChangeRow| groups::table_of(row.gid);
        let of_member = |row: &GroupMemberRow| groups::table_of(row.gid);
        let by_id = |row: &GroupMessageRow| (row.id, 0);
        let messages = by_table(store, shard, &rows.messages, of_message, by_id)?;
        let dated = messages
            .into_iter()
            .map(|(n, row)| Ok((n, Month::of(row.ts)?, row)));
        let mut groups: Vec<_> = rows
            .groups
            .iter()
            .map(|(gid, row)| (groups::table_of(*gid), (gid.get(), row)))
            .collect();
        groups.sort_unstable_by_key(|(n, (gid, _))| (*n, *gid));
        let by_user = |row: &GroupMemberRow| (row.gid.get(), row.uid.get());
        Ok(Self {
            messages: dated.collect::<Result<_, StoreError>>()?,
            changes: by_table(store, shard, &rows.changes, of_change, |row| (row.id, 0))?,
            groups,
            members: by_table(store, shard, rows.members.values(), of_member, by_user)?,
        })
    }
}

fn bind_row(arguments: Arguments, (n, _, row): &Dated<'_>) -> Result<Arguments, StoreError> {
    let message = &row.message;
    Ok(arguments
        .with(row.id)
        .with(message.srcid.get())
        .with(message.destid.get())
        .with(message.mid.get())
        .with(message.msg.as_str())
        .with(datetime::to_column(row.ts)?)
        .with(n.get())
        .with(message.client_msg_id.as_str())
        .with(message.n.get()))
}
