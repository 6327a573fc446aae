//! Up to where the logs are compared.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

use event_log::{EventLogError, LogReader, Record};
use schemas::{OffsetRange, Partition, PartitionMap, dead_letter, topics::Topic};

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

/// Offsets of dead-lettered records, by the topic and partition that they came from.
#[derive(Default)]
pub(crate) struct DeadLetters(BTreeMap<(String, Partition), BTreeSet<i64>>);

impl DeadLetters {
    /// Call this after [`Ends::read`]: a dead letter is appended before any event with a higher source (PROTOCOL S7).
    pub(crate) fn read(
        reader: &LogReader,
        partitions: &[Partition],
    ) -> Result<Self, EventLogError> {
        let bounds = reader.bounds(Topic::DeadLetters, partitions)?;
        let ranges: Vec<_> = bounds
            .into_iter()
            .map(|(partition, bounds)| (partition, bounds.start..bounds.end))
            .collect();
        let mut found = Self::default();
        reader.scan(Topic::DeadLetters, &ranges, |record| {
            found.add(&record);
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    fn add(&mut self, record: &Record) {
        let number = |name| {
            record
                .header(name)
                .and_then(|text| text.parse::<i64>().ok())
        };
        let partition = number(dead_letter::HEADER_PARTITION).and_then(|n| n.try_into().ok());
        let topic = record.header(dead_letter::HEADER_TOPIC);
        let offset = number(dead_letter::HEADER_OFFSET);
        if let (Some(topic), Some(partition), Some(offset)) = (topic, partition, offset) {
            self.0
                .entry((topic.to_owned(), partition))
                .or_default()
                .insert(offset);
        }
    }

    pub(crate) fn of(&self, topic: &str, partition: Partition) -> BTreeSet<i64> {
        self.0
            .get(&(topic.to_owned(), partition))
            .cloned()
            .unwrap_or_default()
    }
}
