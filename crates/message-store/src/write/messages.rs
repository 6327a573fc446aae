use schemas::Partition;

use super::{
    by_table,
    transaction::{Removal, RowCheck, Transaction},
};
use crate::{
    MessageRow, MessageStore, ResumeMove, Shard, Sink, StoreError,
    arguments::Arguments,
    datetime,
    multi_row::{Insert, Sizes},
    names::Table,
};

pub(crate) async fn messages(
    store: &MessageStore,
    shard: Shard,
    topic: &str,
    rows: &[MessageRow],
    moves: &[ResumeMove],
) -> Result<(), StoreError> {
    let partition_of = |row: &MessageRow| Partition::of(row.message.conversation());
    let sorted = by_table(store, shard, rows, partition_of, |row| (row.id, 0))?;
    let (mut statements, mut removals) = (Vec::new(), Vec::new());
    for rows in sorted.chunk_by(|(a, _), (b, _)| a == b) {
        let table = store.names().table(Table::ChatMsg, rows[0].0);
        let insert = Insert {
            table: &table,
            columns: "id, srcid, destid, mid, msg, ts, hashvalue, client_msg_id, n",
            tail: "",
            sizes: Sizes::Kept,
        };
        statements.extend(insert.statements(rows, bind_row)?);
        removals.extend(removal(table, rows, moves));
    }
    let feed = (Sink::Messages, topic);
    Transaction::new(store, shard, feed, moves, statements, RowCheck::All)?
        .replacing(removals)
        .commit(store)
        .await
}

/// What is in the place of these rows is not the database's own truth, since rows come together with the offset: that was
/// lost or set back. The log's rows are these (ADR 0006). `None` where no move goes over their partition.
fn removal(
    table: String,
    rows: &[(Partition, &MessageRow)],
    moves: &[ResumeMove],
) -> Option<Removal> {
    let step = moves.iter().find(|step| step.partition == rows[0].0)?;
    Some(Removal {
        table,
        span: step.from.next_offset..step.to.next_offset,
        ids: rows.iter().map(|(_, row)| row.id).collect(),
    })
}

fn bind_row(
    arguments: Arguments,
    (n, row): &(Partition, &MessageRow),
) -> Result<Arguments, StoreError> {
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
