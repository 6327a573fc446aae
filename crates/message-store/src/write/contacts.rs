use schemas::{Ordinal, TableNumber, TimestampMs};

use super::{
    by_table,
    transaction::{RowCheck, Transaction},
};
use crate::{
    ContactDelta, MessageStore, OffsetUpdate, ReadUpTo, Shard, Sink, StoreError,
    arguments::Arguments,
    datetime,
    multi_row::{Insert, Preparation},
    names::Table,
    unresolved_read,
};

/// `kind` of a contact that is a user; groups will have their own.
const KIND_DIRECT: i8 = 0;

const COLUMNS: &str = "uid, kind, peer, last_mid, last_ts, last_srcid, preview, peer_n, own_n, \
    pc_read_mid, pc_read_n, mobile_read_mid, mobile_read_n";

impl MessageStore {
    /// Merges contacts by maximum and updates the offsets of [`Sink::Contacts`], both or nothing. A read position without ordinal is stored
    /// as an unresolved read as well.
    ///
    /// # Errors
    /// As [`write_messages`](Self::write_messages).
    pub async fn write_contacts<'a>(
        &self,
        shard: Shard,
        topic: &str,
        rows: impl IntoIterator<Item = &'a ContactDelta> + Send,
        updates: &[OffsetUpdate],
    ) -> Result<(), StoreError> {
        let table_of = |row: &ContactDelta| TableNumber::of_user(row.uid);
        let sort_key = |row: &ContactDelta| (row.uid.get(), row.peer.get());
        let sorted = by_table(self, shard, rows, table_of, sort_key)?;
        let mut statements = Vec::new();
        for rows in sorted.chunk_by(|(a, _), (b, _)| a == b) {
            let insert = Insert {
                table: &self.names().table(Table::Contact, rows[0].0),
                columns: COLUMNS,
                tail: include_str!("../../sql/write/merge_contact.sql"),
                sizes: Preparation::Once,
            };
            statements.extend(insert.statements(rows, bind_row)?);
        }
        statements.extend(unresolved_read::statements(
            self.names(),
            shard,
            &sorted,
            updates,
        )?);
        let target = (Sink::Contacts, topic);
        Transaction::new(self, shard, target, updates, statements, RowCheck::Upserted)?
            .commit(self)
            .await
    }
}

fn bind_row(
    arguments: Arguments,
    (_, row): &(TableNumber, &ContactDelta),
) -> Result<Arguments, StoreError> {
    let arguments = arguments
        .with(row.uid.get())
        .with(KIND_DIRECT)
        .with(row.peer.get());
    let arguments = match &row.last {
        Some(last) => arguments
            .with(last.mid.get())
            .with(datetime::to_column(last.ts)?)
            .with(last.srcid.get())
            .with(last.preview.as_str()),
        None => arguments
            .with(0_i64)
            .with(datetime::to_column(TimestampMs(0))?)
            .with(0_i64)
            .with(""),
    };
    let arguments = arguments.with(row.peer_n.get()).with(row.own_n.get());
    let reads = [row.read.pc, row.read.mobile];
    Ok(reads
        .into_iter()
        .fold(arguments, |arguments, ReadUpTo { mid, n }| {
            arguments.with(mid.get()).with(n.map(Ordinal::get))
        }))
}
