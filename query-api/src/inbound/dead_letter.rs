//! Finds the dead-letter record of an inbound record.

use std::ops::ControlFlow;

use event_log::{LogReader, Record};
use schemas::{InboundPosition, TimestampMs, dead_letter::DeadLetterHeaders, topics::Topic};

use super::{
    outcome::Outcome,
    reader_pool::{LookupError, ScanBudget},
};

/// Dead letters are appended after their originals, but the clock of another broker may be behind.
const CLOCK_SKEW_MS: i64 = 24 * 3_600_000;

/// The outcome according to the dead letter of the record of `topic` at `position`, which was appended at `appended`, if it has one.
pub(super) fn find(
    reader: &LogReader,
    topic: &str,
    position: InboundPosition,
    appended: TimestampMs,
    budget: &mut ScanBudget,
) -> Result<Option<Outcome>, LookupError> {
    let partition = position.partition;
    let since = TimestampMs(appended.0.saturating_sub(CLOCK_SKEW_MS));
    let starts = reader.offsets_at(Topic::DeadLetters, &[partition], since)?;
    let bounds = reader.bounds(Topic::DeadLetters, &[partition])?;
    let (Some(start), Some(bounds)) = (starts.get(partition), bounds.get(partition)) else {
        return Ok(None);
    };
    let mut found = None;
    reader.scan(
        Topic::DeadLetters,
        &[(partition, *start..bounds.end)],
        |record| {
            found = refusal(&record, topic, position);
            if found.is_some() {
                return ControlFlow::Break(());
            }
            budget.spend()
        },
    )?;
    if found.is_none() {
        budget.check()?;
    }
    Ok(found)
}

/// The outcome, if the dead letter is that of this record.
fn refusal(record: &Record, topic: &str, position: InboundPosition) -> Option<Outcome> {
    let letter = DeadLetterHeaders::read(|name| record.header(name))?;
    let InboundPosition { partition, offset } = position;
    let is_its = letter.topic == topic && letter.partition == partition && letter.offset == offset;
    is_its.then(|| Outcome::Refused {
        reason: letter.reason.to_string(),
        detail: letter.message,
    })
}

#[cfg(test)]
mod tests {
    use schemas::dead_letter::{DeadLetterRecord, Origin, OriginalRecord, Reason};

    use super::*;

    #[test]
    fn its_identity_is_topic_partition_and_offset() {
        let position = |text: &str| text.parse::<InboundPosition>().unwrap();
        let origin = Origin {
            topic: "chat.inbound",
            partition: position("3:7").partition,
            offset: 7,
            stage: "sequencer",
        };
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
        let refused = Outcome::Refused {
            reason: "conflict".to_owned(),
            detail: "another msg".to_owned(),
        };
        let of = |topic, at| refusal(&record, topic, position(at));
        assert_eq!(of("chat.inbound", "3:7"), Some(refused));
        assert_eq!(of("chat.events", "3:7"), None);
        assert_eq!(of("chat.inbound", "3:8"), None);
    }
}
