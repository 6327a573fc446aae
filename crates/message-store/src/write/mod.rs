//! The write side: rows and offsets in one transaction.

mod changes;
mod contacts;
pub(crate) mod groups;
mod hidden;
mod left;
mod messages;
mod probe;
mod profiles;
mod reads;
mod transaction;

use std::collections::BTreeMap;

pub use contacts::UserRows;
pub use hidden::ClearedCursors;
pub use messages::ConversationRows;
use schemas::TableNumber;

pub(crate) use self::transaction::Transaction;
use crate::{MessageStore, OffsetUpdate, Shard, Sink, StoreError};

impl MessageStore {
    /// Moves resume offsets over records that can no longer be read.
    ///
    /// # Errors
    /// [`StoreError::Moved`] if an offset is not the expected one.
    pub async fn update_resume_offsets(
        &self,
        shard: Shard,
        sink: Sink,
        topic: &str,
        updates: &[OffsetUpdate],
    ) -> Result<(), StoreError> {
        Transaction::new(self, shard, (sink, topic), updates, Vec::new())?
            .commit(self)
            .await
    }
}

/// Rows by the number of their table, in the order in which every writer locks them.
pub(crate) fn by_table<'a, R>(
    store: &MessageStore,
    shard: Shard,
    rows: impl IntoIterator<Item = &'a R>,
    table_of: impl Fn(&R) -> TableNumber,
    sort_key: impl Fn(&R) -> (i64, i64),
) -> Result<BTreeMap<TableNumber, Vec<&'a R>>, StoreError> {
    let mut tables: BTreeMap<TableNumber, Vec<&R>> = BTreeMap::new();
    for row in rows {
        tables.entry(table_of(row)).or_default().push(row);
    }
    for (number, rows) in &mut tables {
        if store.layout().shard_of(*number) != shard {
            return Err(StoreError::fatal(format!(
                "a row of table {number} does not belong into database {}",
                store.names().database(shard)
            )));
        }
        rows.sort_by_key(|row| sort_key(row));
    }
    Ok(tables)
}
