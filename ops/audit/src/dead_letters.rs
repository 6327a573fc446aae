use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    ops::ControlFlow,
};

use event_log::{EventLogError, LogReader, Record};
use schemas::{Partition, PartitionMap, TimestampMs, dead_letter, topics::Topic};

/// The records of `chat.dead-letters`, by the topic and partition of their originals.
#[derive(Default)]
pub(crate) struct DeadLetters {
    found: BTreeMap<(String, Partition), OfPartition>,
    /// The time of the oldest dead letter, where retention has deleted older ones.
    begin: PartitionMap<TimestampMs>,
}

/// The dead letters of one partition of a topic.
#[derive(Clone, Debug, Default)]
pub(crate) struct OfPartition {
    /// By the offset of their originals.
    letters: BTreeMap<i64, Vec<DeadLetter>>,
    /// Those of records before this time may have been deleted.
    pub(crate) begins: Option<TimestampMs>,
}

#[derive(Clone, Debug)]
struct DeadLetter {
    reason: String,
    /// Length and digest of its value: that of the original, or its beginning.
    length: usize,
    digest: u64,
}

/// What at least is kept of a value that is too large for the topic.
const TRUNCATED_BYTES: usize = 64 * 1024;

impl DeadLetters {
    /// Call this after [`Ends::read`](crate::ends::Ends::read): a dead letter is appended before any event with a higher source
    /// (PROTOCOL S7).
    pub(crate) fn read(
        reader: &LogReader,
        partitions: &[Partition],
    ) -> Result<Self, EventLogError> {
        let bounds = reader.bounds(Topic::DeadLetters, partitions)?;
        let mut found = Self::default();
        let mut ranges = Vec::with_capacity(bounds.len());
        for (partition, bounds) in bounds {
            ranges.push((partition, bounds.start..bounds.end));
            if bounds.start > 0 {
                found.begin.insert(partition, TimestampMs(i64::MAX));
            }
        }
        reader.scan(Topic::DeadLetters, &ranges, |record| {
            if let Some(begins) = found.begin.get_mut(record.partition) {
                *begins = record.timestamp.min(*begins);
            }
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
            self.found
                .entry((topic.to_owned(), partition))
                .or_default()
                .add(offset, record);
        }
    }

    pub(crate) fn of(&self, topic: &str, partition: Partition) -> OfPartition {
        let found = self.found.get(&(topic.to_owned(), partition));
        OfPartition {
            begins: self.begin.get(partition).copied(),
            ..found.cloned().unwrap_or_default()
        }
    }
}

impl OfPartition {
    pub(crate) fn add(&mut self, offset: i64, dead_letter: &Record) {
        let value = dead_letter.bytes();
        let reason = dead_letter.header(dead_letter::HEADER_REASON);
        self.letters.entry(offset).or_default().push(DeadLetter {
            reason: reason.unwrap_or("no reason").to_owned(),
            length: value.len(),
            digest: digest(value),
        });
    }

    /// Whether a dead letter of this record may have been deleted by retention.
    pub(crate) fn may_be_deleted(&self, record: &Record) -> bool {
        self.begins.is_some_and(|begins| record.timestamp < begins)
    }

    /// The reasons for which a record was refused, the last one first; none if it was not. A dead letter with another value is that of a
    /// record which had this offset before the log lost its end or was created again.
    pub(crate) fn reasons_of(&self, record: &Record) -> impl Iterator<Item = &str> {
        let value = record.bytes();
        let is_its = move |letter: &&DeadLetter| {
            (letter.length == value.len() || letter.length >= TRUNCATED_BYTES)
                && value.get(..letter.length).map(digest) == Some(letter.digest)
        };
        let letters = self.letters.get(&record.offset).into_iter().flatten();
        letters.rev().filter(is_its).map(|letter| &*letter.reason)
    }
}

fn digest(value: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
