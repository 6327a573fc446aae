//! Up to where the logs are compared.

use event_log::{EventLogError, LogReader};
use schemas::{OffsetRange, Partition, PartitionMap, topics::Topic};

use crate::Progress;

/// The bounds of `chat.inbound` and `chat.events` when the audit began.
pub(crate) struct Ends {
    pub(crate) inbound: PartitionMap<OffsetRange>,
    pub(crate) events: PartitionMap<OffsetRange>,
}

impl Ends {
    /// Reads inbound's bounds first: then every record within them can have its event within those of `chat.events`.
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

    pub(crate) fn limit_to(&mut self, positions: &PartitionMap<i64>) {
        for (partition, bounds) in self.events.iter_mut() {
            let position = positions.get(partition).copied().unwrap_or(0);
            bounds.end = bounds.end.min(position.max(bounds.start));
        }
    }
}
