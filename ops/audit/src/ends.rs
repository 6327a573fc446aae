//! The ends up to which the logs are compared.

use event_log::{EventLogError, LogReader};
use schemas::{OffsetRange, Partition, PartitionMap, topics::Topic};

use crate::Progress;

/// The bounds of `chat.inbound` and `chat.events` when the audit began.
pub(crate) struct Ends {
    pub(crate) inbound: PartitionMap<OffsetRange>,
    pub(crate) events: PartitionMap<OffsetRange>,
}

impl Ends {
    /// Reads the bounds of `chat.inbound` first: then every record within them can have its event within the bounds of `chat.events`.
    pub(crate) fn read(
        reader: &LogReader,
        partitions: &[Partition],
    ) -> Result<Self, EventLogError> {
        Ok(Self {
            inbound: reader.bounds(Topic::Inbound, partitions)?,
            events: reader.bounds(Topic::Events, partitions)?,
        })
    }

    pub(crate) fn progress(&self) -> Progress {
        let bounds = self.events.values();
        Progress::Fixed {
            events: bounds.map(|bounds| bounds.end - bounds.start).sum(),
        }
    }

    pub(crate) fn event_ends(&self) -> PartitionMap<i64> {
        self.events
            .iter()
            .map(|(partition, bounds)| (partition, bounds.end))
            .collect()
    }

    /// Ends the comparison at these positions. Returns the partitions that have events but none left to compare.
    pub(crate) fn limit_to(&mut self, positions: &PartitionMap<i64>) -> Vec<Partition> {
        let mut emptied = Vec::new();
        for (partition, bounds) in self.events.iter_mut() {
            let position = positions.get(partition).copied().unwrap_or(0);
            let end = bounds.end.min(position.max(bounds.start));
            if end == bounds.start && end < bounds.end {
                emptied.push(partition);
            }
            bounds.end = end;
        }
        emptied
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_of_which_no_event_was_passed_is_told_apart() {
        let all: Vec<Partition> = Partition::all().collect();
        let of = |start, end| OffsetRange { start, end };
        let bounds = [of(0, 7), of(0, 7), of(0, 0), of(3, 7), of(3, 7)];
        let mut ends = Ends {
            inbound: PartitionMap::new(),
            events: all.iter().copied().zip(bounds).collect(),
        };
        let positions = [(all[1], 5), (all[3], 3), (all[4], 9)];
        let emptied = ends.limit_to(&positions.into_iter().collect());
        assert_eq!(emptied, [all[0], all[3]]);
        let left: Vec<i64> = ends.event_ends().values().copied().collect();
        assert_eq!(left, [0, 5, 0, 3, 7]);
    }
}
