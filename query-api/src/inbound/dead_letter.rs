//! Finds the dead-letter record of an inbound record.

use std::ops::{ControlFlow, Range};

use api::Outcome;
use event_log::{EventLogError, LogReader, Record};
use schemas::{
    InboundPosition, Partition, TimestampMs, dead_letter::DeadLetterHeaders, topics::Topic,
};

use super::reader_pool::{LookupError, ScanBudget};

/// Dead letters are appended after their originals, but the clock of another broker may be slow. It differs by more than this only if a clock is
/// wrong.
const CLOCK_SKEW_MS: i64 = 24 * 3_600_000;

/// How many records are read at a time: a small scan.
const STEP: i64 = 64;

/// The dead letter of a record of `topic` at `position`, which was appended at `appended`.
pub(super) struct DeadLetterSearch<'a> {
    pub(super) reader: &'a LogReader,
    pub(super) topic: &'a str,
    pub(super) position: InboundPosition,
    pub(super) appended: TimestampMs,
    pub(super) budget: &'a mut ScanBudget,
}

impl DeadLetterSearch<'_> {
    /// The outcome of the record, found by bisection: a process appends the dead letters of a partition in the order of their originals. Dead letters
    /// that a former owner or a restarted process appended again can mislead the bisection, so `None` is no proof; [`Self::scan`] gives one.
    pub(super) fn bisect(&mut self) -> Result<Option<Outcome>, LookupError> {
        let bounds = self.bounds()?;
        Ok(match self.first_at_or_above(bounds)? {
            Some((_, letter)) if letter.offset == self.position.offset => Some(refused(letter)),
            _ => None,
        })
    }

    /// The outcome of the record. Reads all dead letters since the original, by the brokers' clocks and by the order of the dead letters.
    pub(super) fn scan(&mut self) -> Result<Option<Outcome>, LookupError> {
        let (offset, partition) = (self.position.offset, self.position.partition);
        let bounds = self.bounds()?;
        let since = TimestampMs(self.appended.0.saturating_sub(CLOCK_SKEW_MS));
        let since = self
            .reader
            .offsets_at(Topic::DeadLetters, &[partition], since)?;
        let above = self.first_at_or_above(bounds.clone())?;
        let above = above.map_or(bounds.end, |(at, _)| at);
        let range = since[partition].min(above)..bounds.end;
        let found = self.find(range, |letter| letter.offset == offset)?;
        Ok(found.map(|(_, letter)| refused(letter)))
    }

    fn bounds(&self) -> Result<Range<i64>, EventLogError> {
        let partition = self.position.partition;
        let bounds = self.reader.bounds(Topic::DeadLetters, &[partition])?;
        Ok(bounds[partition].start..bounds[partition].end)
    }

    /// The first dead letter whose original is at or above the position, and its offset, if dead letters are in the order of their originals.
    fn first_at_or_above(
        &mut self,
        Range { mut start, mut end }: Range<i64>,
    ) -> Result<Option<(i64, DeadLetterHeaders)>, LookupError> {
        let mut above = None;
        while start < end {
            let middle = start + (end - start) / 2;
            match self.first(middle..end)? {
                Some((at, letter)) if letter.offset < self.position.offset => start = at + 1,
                Some((at, letter)) if letter.offset == self.position.offset => {
                    return Ok(Some((at, letter)));
                }
                found => {
                    end = middle;
                    above = found.or(above);
                }
            }
        }
        Ok(above)
    }

    /// The first dead letter of the topic's records in a range, and its offset.
    fn first(
        &mut self,
        range: Range<i64>,
    ) -> Result<Option<(i64, DeadLetterHeaders)>, LookupError> {
        let mut start = range.start;
        while start < range.end {
            let step = start..range.end.min(start + STEP);
            let found = self.find(step, |_| true)?;
            if found.is_some() {
                return Ok(found);
            }
            start += STEP;
        }
        Ok(None)
    }

    fn find(
        &mut self,
        range: Range<i64>,
        is_right: impl Fn(&DeadLetterHeaders) -> bool,
    ) -> Result<Option<(i64, DeadLetterHeaders)>, LookupError> {
        let mut found = None;
        let ranges = [(self.position.partition, range)];
        self.reader.scan(Topic::DeadLetters, &ranges, |record| {
            found = letter_of(&record, self.topic, self.position.partition)
                .filter(&is_right)
                .map(|letter| (record.offset, letter));
            if found.is_some() {
                return ControlFlow::Break(());
            }
            self.budget.spend()
        })?;
        if found.is_none() {
            self.budget.check()?;
        }
        Ok(found)
    }
}

/// The headers of a dead letter whose original is a record of this partition.
fn letter_of(record: &Record, topic: &str, partition: Partition) -> Option<DeadLetterHeaders> {
    let letter = DeadLetterHeaders::read(|name| record.header(name))?;
    (letter.topic == topic && letter.partition == partition).then_some(letter)
}

fn refused(letter: DeadLetterHeaders) -> Outcome {
    Outcome::Refused {
        reason: letter.reason.to_string(),
        detail: letter.message,
    }
}

#[cfg(test)]
mod tests {
    use schemas::dead_letter::{DeadLetterRecord, Origin, OriginalRecord, Reason};

    use super::*;

    #[test]
    fn its_identity_is_topic_partition_and_offset() {
        let partition = |number: i64| Partition::try_from(number).unwrap();
        let origin = Origin::of_inbound("chat.inbound", "3:7".parse().unwrap());
        let letter = DeadLetterRecord::new(
            &origin,
            Reason::Conflict,
            "another msg",
            &OriginalRecord::default(),
        );
        let record = Record {
            partition: origin.partition,
            offset: 0,
            timestamp: TimestampMs(0),
            leader_epoch: 0,
            key: None,
            value: None,
            headers: letter.headers,
        };
        let of = |topic, number| {
            letter_of(&record, topic, partition(number)).map(|letter| letter.offset)
        };
        assert_eq!(of("chat.inbound", 3), Some(7));
        assert_eq!(of("chat.events", 3), None);
        assert_eq!(of("chat.inbound", 4), None);
    }
}
