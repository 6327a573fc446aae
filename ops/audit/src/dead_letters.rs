use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    ops::ControlFlow,
    sync::Arc,
    time::SystemTime,
};

use event_log::{Admin, EventLogError, KafkaConfig, LogReader, Record};
use schemas::{
    Partition, PartitionMap, TimestampMs,
    dead_letter::{self, Reason},
    topics::Topic,
};

/// The records of `chat.dead-letters`, by the topic and partition of their originals.
#[derive(Default)]
pub(crate) struct DeadLetters {
    found: BTreeMap<(String, Partition), OfPartition>,
    /// Set if retention deleted dead letters: those of records before this time may be among them.
    begin: PartitionMap<TimestampMs>,
}

/// The dead letters of one partition of a topic.
#[derive(Clone, Debug, Default)]
pub(crate) struct OfPartition {
    /// By the offset of their originals.
    letters: BTreeMap<i64, Vec<DeadLetter>>,
    /// Dead letters of records before this time may have been deleted.
    pub(crate) begins: Option<TimestampMs>,
}

#[derive(Clone, Debug)]
struct DeadLetter {
    reason: String,
    /// Length and digest of its value, which is the original's value or the beginning of it.
    length: usize,
    digest: u64,
}

/// The minimum that is kept of a value too large for the topic.
const TRUNCATED_BYTES: usize = 64 * 1024;

const RETENTION: &str = "retention.ms";

/// The maximum difference between the clocks of the brokers and of this machine.
const CLOCK_SKEW_MS: i64 = 3_600_000;

impl DeadLetters {
    /// Call this after [`Ends::read`](crate::ends::Ends::read): a dead letter is appended before any event with a higher source
    /// (PROTOCOL S7).
    pub(crate) async fn read(
        kafka: &KafkaConfig,
        reader: &Arc<LogReader>,
        partitions: &[Partition],
    ) -> Result<Self, EventLogError> {
        let partitions = partitions.to_vec();
        let scan = reader.blocking(move |reader| Self::scan(reader, &partitions));
        let mut letters = scan.await?;
        if !letters.begin.is_empty() {
            letters.limit(SystemTime::now().into(), retention_ms(kafka).await?);
        }
        Ok(letters)
    }

    fn scan(reader: &LogReader, partitions: &[Partition]) -> Result<Self, EventLogError> {
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

    /// A dead letter is not older than its record, so retention cannot have deleted those of records younger than the retention time.
    fn limit(&mut self, now: TimestampMs, retention_ms: i64) {
        let kept_since = match retention_ms {
            ..0 => i64::MIN,
            _ => now
                .0
                .saturating_sub(retention_ms)
                .saturating_add(CLOCK_SKEW_MS),
        };
        for begins in self.begin.values_mut() {
            *begins = TimestampMs(kept_since).min(*begins);
        }
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
        let reason = dead_letter.header(dead_letter::HEADER_REASON);
        self.push(offset, reason.unwrap_or("no reason"), dead_letter.bytes());
    }

    /// Adds the dead letter that `record` has if it was refused for `reason`.
    pub(crate) fn refuse(&mut self, record: &Record, reason: Reason) {
        self.push(record.offset, reason.as_str(), record.bytes());
    }

    fn push(&mut self, offset: i64, reason: &str, value: &[u8]) {
        self.letters.entry(offset).or_default().push(DeadLetter {
            reason: reason.to_owned(),
            length: value.len(),
            digest: digest(value),
        });
    }

    /// Whether retention may have deleted the dead letter of a record that was appended at `time` or later.
    pub(crate) fn may_be_deleted(&self, time: TimestampMs) -> bool {
        self.begins.is_some_and(|begins| time < begins)
    }

    /// The reasons for which a record was refused, the last one first; none if it was not. A dead letter with another value belongs to a record that
    /// had this offset before the log lost its end or was created again.
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

/// The retention time that the topic is configured with, or the declared one if this user may not read the setting.
async fn retention_ms(kafka: &KafkaConfig) -> Result<i64, EventLogError> {
    let topic = Topic::DeadLetters;
    let found = Admin::new(kafka)?.setting(topic, RETENTION).await;
    let declared = topic.settings().iter().find(|(name, _)| *name == RETENTION);
    let parsed = |value: &str| value.parse().ok();
    Ok(found
        .ok()
        .flatten()
        .and_then(|found| parsed(&found))
        .or_else(|| parsed(declared?.1))
        .expect("its retention is declared"))
}

fn digest(value: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 86_400_000;

    #[test]
    fn no_record_that_is_younger_than_the_retention_lacks_its_dead_letter() {
        let partition = Partition::try_from(3).unwrap();
        let may_be_deleted = |oldest: i64, retention_ms, record: i64| {
            let mut letters = DeadLetters::default();
            letters.begin.insert(partition, TimestampMs(oldest));
            letters.limit(TimestampMs(200 * DAY_MS), retention_ms);
            let of = letters.of("chat.inbound", partition);
            of.may_be_deleted(TimestampMs(record))
        };
        let (none_left, days_90) = (i64::MAX, 90 * DAY_MS);
        assert!(may_be_deleted(none_left, days_90, 109 * DAY_MS));
        assert!(!may_be_deleted(none_left, days_90, 111 * DAY_MS));
        // A younger dead letter is left, or an older one.
        assert!(!may_be_deleted(199 * DAY_MS, days_90, 198 * DAY_MS));
        assert!(!may_be_deleted(100 * DAY_MS, days_90, 105 * DAY_MS));
        assert!(!may_be_deleted(none_left, -1, 0), "without retention");
    }
}
