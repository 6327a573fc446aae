use schemas::Partition;

use super::{
    by_table,
    transaction::{RowCheck, Transaction},
};
use crate::{
    MessageRow, MessageStore, ResumeMove, Shard, Sink, StoreError,
    names::Table,
    sql_text::{self, Values},
};

const COLUMNS: &str = "id, srcid, destid, mid, msg, ts, hashvalue, client_msg_id, n";

pub(crate) async fn messages(
    store: &MessageStore,
    shard: Shard,
    topic: &str,
    rows: &[MessageRow],
    moves: &[ResumeMove],
) -> Result<(), StoreError> {
    let partition_of = |row: &MessageRow| Partition::of(row.message.conversation());
    let sorted = by_table(store, shard, rows, partition_of, |row| (row.id, 0))?;
    let mut statements = Vec::new();
    for rows in sorted.chunk_by(|(a, _), (b, _)| a == b) {
        let table = store.names().table(Table::ChatMsg, rows[0].0);
        let head = format!("INSERT INTO {table} ({COLUMNS}) VALUES ");
        statements.extend(sql_text::multi_row(&head, "", rows, push_row)?);
    }
    let feed = (Sink::Messages, topic);
    Transaction::new(store, shard, feed, moves, statements, RowCheck::All)?
        .commit(store)
        .await
}

fn push_row(
    values: &mut Values<'_>,
    (n, row): &(Partition, &MessageRow),
) -> Result<(), StoreError> {
    let message = &row.message;
    values
        .int(row.id)
        .int(message.srcid.get())
        .int(message.destid.get())
        .int(message.mid.get())
        .text(&message.msg)
        .datetime(row.ts)?
        .int(n.get().into())
        .text(message.client_msg_id.as_str())
        .int(message.n.get());
    Ok(())
}
