use std::collections::BTreeMap;

use schemas::{Partition, event::SrcMark};
use sqlx::Row as _;

use super::ReadTx;
use crate::{Resume, Sink, StoreError, arguments::Arguments, resume};

impl ReadTx {
    /// The resume offsets of `partitions`; a missing row is [`Resume::START`].
    ///
    /// # Errors
    /// As all reads.
    pub async fn resume(
        &mut self,
        sink: Sink,
        topic: &str,
        partitions: &[Partition],
    ) -> Result<BTreeMap<Partition, Resume>, StoreError> {
        let table = self.names.resume_offset(self.shard);
        let arguments = Arguments::default().with(sink.name()).with(topic);
        let sql = include_str!("../../sql/read/resume.sql");
        let mut found = BTreeMap::new();
        for row in self.fetch(sql, &table, arguments).await? {
            let partition = i64::from(row.try_get::<u8, _>("partition_no")?);
            let mark = SrcMark {
                epoch: row.try_get("src_epoch")?,
                offset: row.try_get("src_offset")?,
            };
            let next_offset = row.try_get("next_offset")?;
            let partition = Partition::try_from(partition).map_err(StoreError::fatal)?;
            found.insert(partition, Resume { next_offset, mark });
        }
        Ok(resume::with_missing(partitions, &found))
    }
}
