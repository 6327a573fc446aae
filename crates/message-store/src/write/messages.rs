use std::collections::{BTreeMap, BTreeSet};

use schemas::TableNumber;

use super::{
    by_table,
    transaction::{Removal, RowCheck, Transaction},
};
use crate::{
    MessageRow, MessageStore, Month, OffsetUpdate, Shard, Sink, StoreError,
    arguments::Arguments,
    datetime,
    multi_row::{Insert, Preparation},
    names::Table,
    schema,
};

impl MessageStore {
    /// Inserts messages and updates the offsets of [`Sink::Messages`], both or nothing. `rows` may be empty, and in any order.
    /// Rows that are there already although the offset says that they are not are replaced by those with their ids. A month that is missing
    /// is made; rows of months that were dropped are left out.
    ///
    /// # Errors
    /// [`StoreError::Moved`] where an offset is not what the move says; fatal where a row that no move goes over is there
    /// already, or belongs to another database.
    pub async fn write_messages(
        &self,
        shard: Shard,
        topic: &str,
        rows: &[MessageRow],
        updates: &[OffsetUpdate],
    ) -> Result<(), StoreError> {
        let table_of = |row: &MessageRow| row.message.conversation().partition().into();
        let sorted = by_table(self, shard, rows, table_of, |row| (row.id, 0))?;
        let rows: Vec<Dated<'_>> = sorted
            .into_iter()
            .map(|(n, row)| Ok((n, Month::of(row.ts)?, row)))
            .collect::<Result<_, StoreError>>()?;
        let target = (Sink::Messages, topic);
        let outcome = transaction(self, shard, target, &rows, updates)?.commit(self);
        match outcome.await {
            Err(error) if error.is_month_missing() => {
                if !schema::create_requested_months(self, shard, &months_of(&rows)).await? {
                    return Err(error);
                }
                let again = transaction(self, shard, target, &rows, updates)?;
                again.commit(self).await
            }
            outcome => outcome,
        }
    }
}

/// A row with its table's number and its month.
type Dated<'a> = (TableNumber, Month, &'a MessageRow);

/// The rows of months that are kept, and the offset updates.
fn transaction(
    store: &MessageStore,
    shard: Shard,
    target: (Sink, &str),
    rows: &[Dated<'_>],
    updates: &[OffsetUpdate],
) -> Result<Transaction, StoreError> {
    let kept_from = store.known_kept_from(shard);
    let kept: Vec<Dated<'_>> = rows
        .iter()
        .filter(|(_, month, _)| Some(*month) >= kept_from)
        .copied()
        .collect();
    let (mut statements, mut removals) = (Vec::new(), Vec::new());
    for rows in kept.chunk_by(|(a, month, _), (b, other, _)| (a, month) == (b, other)) {
        let (n, month, _) = rows[0];
        let table = store.names().table(Table::ChatMsg, n);
        // The first range would take any older row in silence.
        let place = format!("{table} PARTITION ({})", month.name());
        let insert = Insert {
            table: &place,
            columns: "id, srcid, destid, mid, msg, ts, hashvalue, client_msg_id, n",
            tail: "",
            sizes: Preparation::Kept,
        };
        statements.extend(insert.statements(rows, bind_row)?);
        removals.extend(removal(table, rows, updates));
    }
    let transaction = Transaction::new(store, shard, target, updates, statements, RowCheck::All)?;
    Ok(transaction.replacing(removals))
}

fn months_of(rows: &[Dated<'_>]) -> BTreeMap<TableNumber, BTreeSet<Month>> {
    let mut months: BTreeMap<TableNumber, BTreeSet<Month>> = BTreeMap::new();
    for (n, month, _) in rows {
        months.entry(*n).or_default().insert(*month);
    }
    months
}

/// What is in the place of these rows is not the database's own truth, since rows come together with the offset: that was
/// lost or set back. The log's rows are these (ADR 0006). `None` where their partition is not updated.
fn removal(table: String, rows: &[Dated<'_>], updates: &[OffsetUpdate]) -> Option<Removal> {
    let update = updates
        .iter()
        .find(|update| TableNumber::from(update.partition) == rows[0].0)?;
    Some(Removal {
        table,
        span: update.from.next.get()..update.to.next.get(),
        ids: rows.iter().map(|(_, _, row)| row.id).collect(),
    })
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
