use schemas::Partition;

use super::{
    by_table,
    transaction::{RowCheck, Transaction},
};
use crate::{
    MessageStore, ReadRow, ResumeMove, Shard, Sink, StoreError,
    names::Table,
    sql_text::{self, Values},
};

pub(crate) async fn reads(
    store: &MessageStore,
    shard: Shard,
    topic: &str,
    rows: &[ReadRow],
    moves: &[ResumeMove],
) -> Result<(), StoreError> {
    let partition_of = |row: &ReadRow| Partition::of(row.conversation);
    let sort_key = |row: &ReadRow| (row.uid.get(), row.conversation.lo().get());
    let sorted = by_table(store, shard, rows, partition_of, sort_key)?;
    let mut statements = Vec::new();
    for rows in sorted.chunk_by(|(a, _), (b, _)| a == b) {
        let table = store.names().table(Table::ReadChatMid, rows[0].0);
        let head =
            format!("INSERT INTO {table} (uid, sessionId, pcMid, mobileMid, hashvalue) VALUES ");
        let tail = include_str!("../../sql/write/raise_read.sql");
        statements.extend(sql_text::multi_row(&head, tail, rows, push_row)?);
    }
    let feed = (Sink::Reads, topic);
    Transaction::new(store, shard, feed, moves, statements, RowCheck::Upserted)?
        .commit(store)
        .await
}

fn push_row(values: &mut Values<'_>, (n, row): &(Partition, &ReadRow)) -> Result<(), StoreError> {
    values
        .int(row.uid.get())
        .text(&row.conversation.to_string())
        .int(row.mids.pc.get())
        .int(row.mids.mobile.get())
        .int(n.get().into());
    Ok(())
}
