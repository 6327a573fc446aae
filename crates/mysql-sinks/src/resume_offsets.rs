use message_store::OffsetUpdate;
use schemas::{LogPosition, Partition, PartitionMap};

/// The resume offsets of one sink in one database: those that the database has, and those that it will have once the pending rows are
/// written.
#[derive(Debug, Default)]
pub(crate) struct ResumeOffsets {
    stored: PartitionMap<LogPosition>,
    pending: PartitionMap<LogPosition>,
}

impl ResumeOffsets {
    /// Takes over the database's offsets; pending offsets of these partitions are dropped.
    pub(crate) fn reset(&mut self, found: PartitionMap<LogPosition>) {
        self.pending
            .retain(|partition, _| !found.contains(partition));
        self.stored.extend(found);
    }

    pub(crate) fn forget(&mut self, partitions: &[Partition]) {
        for partition in partitions {
            self.stored.remove(*partition);
            self.pending.remove(*partition);
        }
    }

    pub(crate) fn partitions(&self) -> Vec<Partition> {
        self.stored.partitions().collect()
    }

    /// The database's offset; `None` for a partition that was not read from it.
    pub(crate) fn stored(&self, partition: Partition) -> Option<LogPosition> {
        self.stored.get(partition).copied()
    }

    /// Makes `to` the offset that is written with the pending rows, unless the database has reached it already (one of several databases may be
    /// ahead of the others), or the partition was not read from the database.
    pub(crate) fn advance(&mut self, partition: Partition, to: LogPosition) {
        if self
            .stored(partition)
            .is_some_and(|from| to.next > from.next)
        {
            self.pending.insert(partition, to);
        }
    }

    pub(crate) fn updates(&self) -> Vec<OffsetUpdate> {
        let update = |(partition, to): (Partition, &LogPosition)| OffsetUpdate {
            partition,
            from: self.stored(partition).unwrap_or_default(),
            to: *to,
        };
        self.pending.iter().map(update).collect()
    }

    /// Notes that the database has taken the updates. Returns whether there were any.
    pub(crate) fn committed(&mut self) -> bool {
        let any = !self.pending.is_empty();
        self.stored.extend(std::mem::take(&mut self.pending));
        any
    }

    /// A partition whose offset in the database is not the remembered one; without a row it is at the start.
    pub(crate) fn first_difference(&self, found: &PartitionMap<LogPosition>) -> Option<Partition> {
        let differs = |(partition, stored): &(Partition, &LogPosition)| {
            found.get(*partition).copied().unwrap_or_default() != **stored
        };
        let first = self.stored.iter().find(differs);
        first.map(|(partition, _)| partition)
    }
}

#[cfg(test)]
mod tests {
    use schemas::{NextOffset, event::SourceOffset};

    use super::*;

    fn at(next: i64) -> LogPosition {
        LogPosition {
            next: NextOffset::new(next),
            watermark: SourceOffset {
                epoch: 0,
                offset: next * 10,
            },
        }
    }

    fn partition(n: i64) -> Partition {
        n.try_into().unwrap()
    }

    fn offsets() -> ResumeOffsets {
        let mut offsets = ResumeOffsets::default();
        offsets.reset(
            [
                (partition(1), at(5)),
                (partition(2), LogPosition::default()),
            ]
            .into(),
        );
        offsets
    }

    #[test]
    fn offsets_only_advance() {
        let mut offsets = offsets();
        offsets.advance(partition(1), at(5));
        offsets.advance(partition(1), at(4));
        offsets.advance(partition(3), at(9));
        assert!(offsets.updates().is_empty());
        offsets.advance(partition(1), at(6));
        let update = OffsetUpdate {
            partition: partition(1),
            from: at(5),
            to: at(6),
        };
        assert_eq!(offsets.updates(), [update]);
        assert!(offsets.committed());
        assert_eq!(offsets.stored(partition(1)), Some(at(6)));
        assert!(offsets.updates().is_empty());
    }

    #[test]
    fn a_database_that_came_back_older_differs() {
        let offsets = offsets();
        let same = [(partition(1), at(5))].into();
        assert_eq!(offsets.first_difference(&same), None);
        let older = [
            (partition(1), at(3)),
            (partition(2), LogPosition::default()),
        ]
        .into();
        assert_eq!(offsets.first_difference(&older), Some(partition(1)));
        assert_eq!(
            offsets.first_difference(&PartitionMap::new()),
            Some(partition(1))
        );
    }
}
