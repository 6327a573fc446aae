//! A marker row in the first database while all tables of a sink are being rebuilt. After a crash it tells the next rebuild that only
//! tables with shadows are left to do.

use crate::{MessageStore, Sink, StoreError, resume::check_topic};

impl MessageStore {
    /// Sets the marker, once all shadow tables exist.
    ///
    /// # Errors
    /// As all writes.
    pub async fn begin_full_rebuild(&self, sink: Sink, topic: &str) -> Result<(), StoreError> {
        let set = self.execute_marker(
            include_str!("../../sql/swap/mark_full_rebuild.sql"),
            sink,
            topic,
        );
        set.await.map(drop)
    }

    /// Deletes the marker. Returns whether it was set.
    ///
    /// # Errors
    /// As all writes.
    pub async fn end_full_rebuild(&self, sink: Sink, topic: &str) -> Result<bool, StoreError> {
        let deleted = self.execute_marker(
            include_str!("../../sql/swap/clear_full_rebuild.sql"),
            sink,
            topic,
        );
        Ok(deleted.await? > 0)
    }

    async fn execute_marker(
        &self,
        template: &str,
        sink: Sink,
        topic: &str,
    ) -> Result<u64, StoreError> {
        check_topic(topic)?;
        let Some(shard) = self.layout().shards().next() else {
            return Ok(0);
        };
        let sql = template
            .replace("{table}", &self.names().resume_offset(shard))
            .replace("{marker}", &format!("{}.all", sink.name()))
            .replace("{topic}", topic);
        self.session(shard).await?.execute(sql).await
    }
}
