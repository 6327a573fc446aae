//! That all tables of a sink are being rebuilt is noted in the first database, so that a run after one that was killed knows that the
//! shadows which are left are all that is left to do.

use crate::{MessageStore, Sink, StoreError, resume::check_topic};

impl MessageStore {
    /// Notes that all tables of a sink are being rebuilt, once all shadows are there.
    ///
    /// # Errors
    /// As all writes.
    pub async fn begin_rebuild_of_all(&self, sink: Sink, topic: &str) -> Result<(), StoreError> {
        let noted = self.run(include_str!("../../sql/switch/note_run.sql"), sink, topic);
        noted.await.map(drop)
    }

    /// Forgets it; whether it was noted.
    ///
    /// # Errors
    /// As all writes.
    pub async fn end_rebuild_of_all(&self, sink: Sink, topic: &str) -> Result<bool, StoreError> {
        let forgotten = self.run(include_str!("../../sql/switch/end_run.sql"), sink, topic);
        Ok(forgotten.await? > 0)
    }

    async fn run(&self, template: &str, sink: Sink, topic: &str) -> Result<u64, StoreError> {
        check_topic(topic)?;
        let Some(shard) = self.layout().shards().next() else {
            return Ok(0);
        };
        let sql = template
            .replace("{table}", &self.names().resume_offset(shard))
            .replace("{run}", &format!("{}.all", sink.name()))
            .replace("{topic}", topic);
        self.session(shard).await?.execute(sql).await
    }
}
