use hashbrown::{HashMap, hash_map::Entry};
use message_store::StoreError;
use schemas::{LogPosition, Partition, PartitionMap};

use super::MergedRow;
use crate::{destination::Destination, metrics, resume_offsets::ResumeOffsets};

/// The pending rows and the offsets of one database.
pub(crate) struct Buffer<R: MergedRow> {
    pub(crate) offsets: ResumeOffsets,
    rows: HashMap<R::Key, R>,
}

impl<R: MergedRow> Default for Buffer<R> {
    fn default() -> Self {
        Self {
            offsets: ResumeOffsets::default(),
            rows: HashMap::new(),
        }
    }
}

impl<R: MergedRow> Buffer<R> {
    /// Takes over the database's offsets, and drops what is pending of these partitions.
    pub(crate) fn reset(&mut self, found: PartitionMap<LogPosition>) {
        let partitions: Vec<Partition> = found.partitions().collect();
        self.forget(&partitions);
        self.offsets.reset(found);
    }

    pub(crate) fn forget(&mut self, partitions: &[Partition]) {
        self.rows
            .retain(|_, row| !partitions.contains(&row.partition()));
        self.offsets.forget(partitions);
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether the database has yet to take the record at this offset.
    pub(crate) fn lacks(&self, partition: Partition, offset: i64) -> bool {
        let stored = self.offsets.stored(partition);
        stored.is_some_and(|at| at.next.get() <= offset)
    }

    pub(crate) fn merge(&mut self, row: R) {
        match self.rows.entry(row.key()) {
            Entry::Vacant(entry) => {
                entry.insert(row);
            }
            Entry::Occupied(mut pending) => pending.get_mut().merge(row),
        }
    }

    /// Writes what is pending, and keeps it: if the caller is dropped meanwhile, it is not known whether the database took it.
    pub(crate) async fn write(&self, destination: &Destination) -> Result<(), StoreError> {
        let updates = self.offsets.updates();
        if self.rows.is_empty() && updates.is_empty() {
            return Ok(());
        }
        let write = R::write(destination, self.rows.values(), &updates);
        metrics::measure(destination, self.rows.len(), write).await
    }

    /// Notes that the database has taken what was pending. Returns whether anything was.
    pub(crate) fn committed(&mut self) -> bool {
        let advanced = self.offsets.committed();
        let rows = std::mem::take(&mut self.rows);
        advanced || !rows.is_empty()
    }
}
