//! Hidden messages that are no longer needed: the user has cleared the history up to them.

use std::collections::BTreeMap;

use schemas::TableNumber;

use super::transaction::any_of;
use crate::{MessageStore, StoreError, names::Table};

/// How many rows a statement looks at, and how many statements one call runs for a table.
const ROWS_AT_ONCE: u32 = 1000;
const STATEMENTS: usize = 10;

/// The scan cursor of [`MessageStore::delete_cleared`] in each table: the last primary key; a table that is missing here is scanned from the start.
#[derive(Clone, Debug, Default)]
pub struct ClearedCursors(BTreeMap<TableNumber, [i64; 4]>);

impl MessageStore {
    /// Deletes hidden messages that their users have cleared since. Returns how many over all tables. Looks at up to 10,000 rows of each table, and
    /// continues after them the next time. A row that is written again, for example when the log is read again, is deleted again.
    ///
    /// # Errors
    /// As all writes.
    pub async fn delete_cleared(&self, cursors: &mut ClearedCursors) -> Result<u64, StoreError> {
        let mut deleted = 0;
        for shard in self.layout().shards() {
            for n in self.layout().tables_of(shard) {
                for _ in 0..STATEMENTS {
                    deleted += self.delete_some_cleared(n, cursors).await?;
                    if !cursors.0.contains_key(&n) {
                        break;
                    }
                }
            }
        }
        Ok(deleted)
    }

    async fn delete_some_cleared(
        &self,
        n: TableNumber,
        ClearedCursors(cursors): &mut ClearedCursors,
    ) -> Result<u64, StoreError> {
        let shard = self.layout().shard_of(n);
        // Read without locks: a clear is never undone.
        let mut tx = self.snapshot(shard).await?;
        let page = tx.scan_cleared(n, cursors.get(&n).copied(), ROWS_AT_ONCE);
        let page = page.await?;
        drop(tx);
        match page.last() {
            Some((last, _)) if page.len() == ROWS_AT_ONCE as usize => cursors.insert(n, *last),
            _ => cursors.remove(&n),
        };
        let cleared = page.into_iter().filter(|(_, is_cleared)| *is_cleared);
        let cleared: Vec<_> = cleared.map(|(key, _)| key).collect();
        if cleared.is_empty() {
            return Ok(0);
        }
        let table = self.names().table(Table::Hidden, n);
        let keys = any_of(&cleared, |[uid, kind, peer, mid]| {
            format!("uid = {uid} AND kind = {kind} AND peer = {peer} AND mid = {mid}")
        });
        let delete = format!("DELETE FROM {table} WHERE {keys}");
        let deleted = self.session(shard).await?.execute(delete).await;
        deleted.map_err(|error| error.of(&table))
    }
}
