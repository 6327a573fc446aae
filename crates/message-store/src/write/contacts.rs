use schemas::{Ordinal, Partition, TimestampMs};

use super::{
    by_table,
    transaction::{RowCheck, Transaction},
};
use crate::{
    ContactDelta, MessageStore, PREVIEW_CHARS, ReadUpTo, ResumeMove, Shard, Sink, StoreError,
    names::Table,
    sql_text::{self, Values},
};

/// `kind` of a contact that is a user; groups will have their own.
pub(crate) const KIND_DIRECT: i64 = 0;

const COLUMNS: &str = "uid, kind, peer, last_mid, last_ts, last_srcid, preview, peer_n, own_n, \
    pc_read_mid, pc_read_n, mobile_read_mid, mobile_read_n";

pub(crate) async fn contacts(
    store: &MessageStore,
    shard: Shard,
    topic: &str,
    rows: &[ContactDelta],
    moves: &[ResumeMove],
) -> Result<(), StoreError> {
    let partition_of = |row: &ContactDelta| Partition::of_user(row.uid);
    let sort_key = |row: &ContactDelta| (row.uid.get(), row.peer.get());
    let sorted = by_table(store, shard, rows, partition_of, sort_key)?;
    let mut statements = Vec::new();
    for rows in sorted.chunk_by(|(a, _), (b, _)| a == b) {
        let table = store.names().table(Table::Contact, rows[0].0);
        let head = format!("INSERT INTO {table} ({COLUMNS}) VALUES ");
        let tail = include_str!("../../sql/write/merge_contact.sql");
        statements.extend(sql_text::multi_row(&head, tail, rows, push_row)?);
    }
    let feed = (Sink::Contacts, topic);
    Transaction::new(store, shard, feed, moves, statements, RowCheck::Upserted)?
        .commit(store)
        .await
}

fn push_row(
    values: &mut Values<'_>,
    (_, row): &(Partition, &ContactDelta),
) -> Result<(), StoreError> {
    values
        .int(row.uid.get())
        .int(KIND_DIRECT)
        .int(row.peer.get());
    match &row.last {
        Some(last) => values
            .int(last.mid.get())
            .datetime(last.ts)?
            .int(last.srcid.get())
            .text(preview(&last.preview)),
        None => values.int(0).datetime(TimestampMs(0))?.int(0).text(""),
    };
    values.int(row.peer_n.get()).int(row.own_n.get());
    for ReadUpTo { mid, n } in [row.pc_read, row.mobile_read] {
        values.int(mid.get()).int_or_null(n.map(Ordinal::get));
    }
    Ok(())
}

/// The first [`PREVIEW_CHARS`] characters.
fn preview(text: &str) -> &str {
    let end = text.char_indices().nth(PREVIEW_CHARS).map(|(at, _)| at);
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_counts_characters_not_bytes() {
        let exact = "\u{1f30a}".repeat(PREVIEW_CHARS);
        assert_eq!(preview(&exact), exact);
        assert_eq!(preview(&format!("{exact}x")), exact);
        assert_eq!(preview(""), "");
    }
}
