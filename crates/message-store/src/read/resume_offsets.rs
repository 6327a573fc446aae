use schemas::{LogPosition, Partition, PartitionMap};
use sqlx::Row as _;

use super::{ReadTx, decode};
use crate::{MessageStore, Shard, Sink, StoreError, StoredOffset, arguments::Arguments, resume};

impl ReadTx {
    /// The resume offsets of `partitions`; the start if a row is missing.
    pub async fn resume_offsets(
        &mut self,
        sink: Sink,
        topic: &str,
        partitions: &[Partition],
    ) -> Result<PartitionMap<LogPosition>, StoreError> {
        let table = self.names.resume_offset(self.shard);
        let arguments = Arguments::default()
            .with(self.names.sink_name(sink))
            .with(topic);
        let sql = include_str!("../../sql/read/resume_offsets.sql").replace("{table}", &table);
        let rows = self.session.fetch(sql, arguments.finish()?).await?;
        Ok(resume::or_start(
            partitions,
            &decode::resume_offsets(&rows)?,
        ))
    }

    /// The offsets below which rows of users who left a group may have been deleted; without the partitions of which none have.
    pub async fn forgotten_below(
        &mut self,
        sink: Sink,
        topic: &str,
    ) -> Result<PartitionMap<i64>, StoreError> {
        let table = self.names.resume_offset(self.shard);
        let arguments = Arguments::default()
            .with(self.names.sink_name(sink))
            .with(topic);
        let sql = include_str!("../../sql/read/forgotten_below.sql").replace("{table}", &table);
        let rows = self.session.fetch(sql, arguments.finish()?).await?;
        decode::by_partition(&rows, |row| Ok(row.try_get("forgotten_below")?))
    }
}

impl MessageStore {
    /// All rows of `resume_offset` in a database.
    pub async fn stored_offsets(&self, shard: Shard) -> Result<Vec<StoredOffset>, StoreError> {
        let sql = include_str!("../../sql/read/stored_offsets.sql")
            .replace("{table}", &self.names().resume_offset(shard));
        let rows = self.session(shard).await?.fetch_text(sql).await?;
        rows.iter().map(decode::stored_offset).collect()
    }

    /// The resume offsets of `partitions` in one database; the start if a row is missing.
    pub async fn read_resume_offsets(
        &self,
        shard: Shard,
        sink: Sink,
        topic: &str,
        partitions: &[Partition],
    ) -> Result<PartitionMap<LogPosition>, StoreError> {
        self.snapshot(shard)
            .await?
            .resume_offsets(sink, topic, partitions)
            .await
    }
}
