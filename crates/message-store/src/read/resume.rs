use std::collections::BTreeMap;

use schemas::Partition;

use super::{ReadTx, decode};
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
        let arguments = Arguments::default().with(self.names.feed(sink)).with(topic);
        let sql = include_str!("../../sql/read/resume.sql");
        let rows = self.fetch(sql, &table, arguments).await?;
        Ok(resume::with_missing(partitions, &decode::resumes(&rows)?))
    }
}
