use super::{by_table, transaction::Transaction};
use crate::{
    MessageStore, OffsetUpdate, ReadRow, Shard, Sink, StoreError,
    multi_row::{Insert, Preparation},
    names::Table,
};

impl MessageStore {
    /// Raises read positions and updates the offsets of [`Sink::Reads`], both or nothing.
    ///
    /// # Errors
    /// As [`write_messages`](Self::write_messages).
    pub async fn write_reads<'a>(
        &self,
        shard: Shard,
        topic: &str,
        rows: impl IntoIterator<Item = &'a ReadRow> + Send,
        updates: &[OffsetUpdate],
    ) -> Result<(), StoreError> {
        let table_of = |row: &ReadRow| row.conversation.partition().into();
        let sort_key = |row: &ReadRow| (row.uid.get(), row.conversation.lo().get());
        let sorted = by_table(self, shard, rows, table_of, sort_key)?;
        let mut statements = Vec::new();
        for (n, rows) in sorted {
            let insert = Insert {
                table: &self.names().table(Table::ReadChatMid, n),
                columns: "uid, sessionId, pcMid, mobileMid, hashvalue",
                tail: include_str!("../../sql/write/merge_read.sql"),
                sizes: Preparation::Once,
            };
            statements.extend(insert.statements(&rows, |arguments, row| {
                Ok(arguments
                    .with(row.uid.get())
                    .with(row.conversation.to_string())
                    .with(row.mids.pc.get())
                    .with(row.mids.mobile.get())
                    .with(n.get()))
            })?);
        }
        let target = (Sink::Reads, topic);
        Transaction::new(self, shard, target, updates, statements)?
            .commit(self)
            .await
    }
}
