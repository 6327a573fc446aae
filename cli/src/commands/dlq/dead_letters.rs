//! Reads dead letters from their topic.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::{ControlFlow, Range},
};

use event_log::{EventLogError, LogReader, Record, Scanned};
use schemas::{
    InboundPosition, Partition, TimestampMs,
    dead_letter::{DeadLetterHeaders, Reason},
    topics::Topic,
};

use crate::args::DlqFilter;

/// A record of `chat.dead-letters` with its parsed headers.
pub(super) struct DeadLetter {
    pub(super) record: Record,
    pub(super) headers: DeadLetterHeaders,
}

impl DeadLetter {
    fn of(record: Record) -> Option<Self> {
        let headers = DeadLetterHeaders::read(|name| record.header(name))?;
        Some(Self { record, headers })
    }

    /// Its position in `chat.dead-letters`, as text.
    pub(super) fn position(&self) -> String {
        format!("{}:{}", self.record.partition, self.record.offset)
    }

    /// The topic and position of the dead letter's original, as text.
    pub(super) fn original(&self) -> String {
        let DeadLetterHeaders {
            topic,
            partition,
            offset,
            ..
        } = &self.headers;
        format!("{topic} {partition}:{offset}")
    }

    /// Drops the original itself, so that a long list fits into memory.
    pub(super) fn without_original(mut self) -> Self {
        self.record.key = None;
        self.record.value = None;
        self.record.headers = Vec::new();
        self
    }
}

/// The validated filter of a command.
pub(super) struct Filter {
    topic: Option<String>,
    partition: Option<Partition>,
    reasons: Vec<Reason>,
    since: Option<TimestampMs>,
    until: Option<TimestampMs>,
}

impl Filter {
    /// `name` gives a topic's full name.
    pub(super) fn new(args: &DlqFilter, name: impl Fn(Topic) -> String) -> Self {
        Self {
            topic: args.topic.map(|topic| name(topic.into())),
            partition: args.partition,
            reasons: args.reason.clone(),
            since: args.since,
            until: args.until,
        }
    }

    fn admits(&self, dead_letter: &DeadLetter) -> bool {
        let DeadLetter { record, headers } = dead_letter;
        self.topic
            .as_ref()
            .is_none_or(|topic| *topic == headers.topic)
            && self.partition.is_none_or(|it| it == headers.partition)
            && (self.reasons.is_empty() || self.reasons.contains(&headers.reason))
            && self.since.is_none_or(|since| record.timestamp >= since)
            && self.until.is_none_or(|until| record.timestamp < until)
    }
}

/// Reads the dead letters that the filter admits, ordered by partition and offset; `map` is applied to each. If an original has several, only the
/// first is returned.
pub(super) fn read(
    reader: &LogReader,
    filter: &Filter,
    map: impl Fn(DeadLetter) -> DeadLetter,
) -> Result<Vec<DeadLetter>, EventLogError> {
    // A dead letter is in its original's partition.
    let partitions: Vec<Partition> = match filter.partition {
        Some(partition) => vec![partition],
        None => Partition::all().collect(),
    };
    let ends = reader.bounds(Topic::DeadLetters, &partitions)?;
    let starts = match filter.since {
        Some(since) => reader.offsets_at(Topic::DeadLetters, &partitions, since)?,
        None => ends.iter().map(|(p, bounds)| (p, bounds.start)).collect(),
    };
    let ranges: Vec<(Partition, Range<i64>)> = ends
        .into_iter()
        .map(|(partition, bounds)| (partition, starts[partition]..bounds.end))
        .collect();
    let mut dead_letters = BTreeMap::new();
    reader.scan_remaining(Topic::DeadLetters, &ranges, |scanned| {
        if let Scanned::Record(record) = scanned {
            let admitted = DeadLetter::of(record).filter(|dead_letter| filter.admits(dead_letter));
            if let Some(dead_letter) = admitted {
                dead_letters.insert(
                    (dead_letter.record.partition, dead_letter.record.offset),
                    map(dead_letter),
                );
            }
        }
        ControlFlow::Continue(())
    })?;
    let mut seen = BTreeSet::new();
    let is_first = |dead_letter: &DeadLetter| {
        let headers = &dead_letter.headers;
        seen.insert((headers.topic.clone(), headers.partition, headers.offset))
    };
    let mut dead_letters: Vec<DeadLetter> = dead_letters.into_values().collect();
    dead_letters.retain(is_first);
    Ok(dead_letters)
}

/// Reads the dead letter at this position, if there is one.
pub(super) fn one(
    reader: &LogReader,
    position: InboundPosition,
) -> Result<Option<DeadLetter>, EventLogError> {
    let record = reader.record(Topic::DeadLetters, position.partition, position.offset)?;
    Ok(record.and_then(DeadLetter::of))
}

#[cfg(test)]
pub(super) mod tests {
    use schemas::dead_letter::{DeadLetterRecord, Origin, OriginalRecord};

    use super::*;

    pub(crate) fn dead_letter(topic: &str, reason: Reason, value: &[u8]) -> DeadLetter {
        let origin = Origin::of_inbound(topic, "5:7".parse().unwrap());
        let original = OriginalRecord {
            value: Some(value),
            ..OriginalRecord::default()
        };
        let dead_letter = DeadLetterRecord::new(&origin, reason, "as it says", &original);
        let record = Record {
            partition: origin.partition,
            offset: 0,
            timestamp: TimestampMs(1_000),
            leader_epoch: 0,
            key: None,
            value: dead_letter.value,
            headers: dead_letter.headers,
        };
        DeadLetter::of(record).unwrap()
    }

    fn admits(args: &DlqFilter) -> bool {
        let filter = Filter::new(args, |topic| topic.name().to_owned());
        filter.admits(&dead_letter("chat.inbound", Reason::Conflict, b""))
    }

    #[test]
    fn all_that_is_asked_for_must_hold() {
        use crate::args::TopicArg;
        let any = DlqFilter::default;
        let at = |ms| Some(TimestampMs(ms));
        let topic = |topic| DlqFilter {
            topic: Some(topic),
            ..any()
        };
        let reason = |reason| DlqFilter {
            reason: vec![reason],
            ..any()
        };
        for right in [
            any(),
            topic(TopicArg::Inbound),
            DlqFilter {
                partition: 5.try_into().ok(),
                ..reason(Reason::Conflict)
            },
            DlqFilter {
                since: at(1_000),
                until: at(1_001),
                ..any()
            },
        ] {
            assert!(admits(&right), "{right:?}");
        }
        for wrong in [
            topic(TopicArg::Events),
            reason(Reason::Malformed),
            DlqFilter {
                partition: 6.try_into().ok(),
                ..reason(Reason::Conflict)
            },
            DlqFilter {
                since: at(1_001),
                ..any()
            },
            DlqFilter {
                until: at(1_000),
                ..any()
            },
        ] {
            assert!(!admits(&wrong), "{wrong:?}");
        }
    }
}
