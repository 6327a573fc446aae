//! Finds the dead letter of an inbound record.

use std::ops::ControlFlow;

use event_log::{LogReader, Record};
use schemas::{
    InboundPosition, TimestampMs,
    dead_letter::{HEADER_MESSAGE, HEADER_OFFSET, HEADER_PARTITION, HEADER_REASON, HEADER_TOPIC},
    topics::Topic,
};

use super::{
    outcome::Outcome,
    readers::{Budget, LookupError},
};

/// Dead letters are written after their originals, but another broker's clock may have set their time.
const CLOCK_SKEW_MS: i64 = 60_000;

/// The dead letter of the record of `topic` at `position`, which was appended at `appended`, if it has one.
pub(super) fn find(
    reader: &LogReader,
    topic: &str,
    position: InboundPosition,
    appended: TimestampMs,
    budget: &mut Budget,
) -> Result<Option<Outcome>, LookupError> {
    let partition = position.partition;
    let since = TimestampMs(appended.0.saturating_sub(CLOCK_SKEW_MS));
    let starts = reader.offsets_at(Topic::DeadLetters, &[partition], since)?;
    let bounds = reader.bounds(Topic::DeadLetters, &[partition])?;
    let (Some(start), Some(bounds)) = (starts.get(&partition), bounds.get(&partition)) else {
        return Ok(None);
    };
    let mut found = None;
    reader.scan(
        Topic::DeadLetters,
        &[(partition, *start..bounds.end)],
        |record| {
            if is_of(&record, topic, position) {
                found = Some(refused(&record));
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

fn is_of(record: &Record, topic: &str, position: InboundPosition) -> bool {
    record.header(HEADER_TOPIC) == Some(topic)
        && record.header(HEADER_PARTITION) == Some(position.partition.to_string().as_str())
        && record.header(HEADER_OFFSET) == Some(position.offset.to_string().as_str())
}

fn refused(record: &Record) -> Outcome {
    let header = |name| record.header(name).unwrap_or_default().to_owned();
    Outcome::Refused {
        reason: header(HEADER_REASON),
        detail: header(HEADER_MESSAGE),
    }
}

#[cfg(test)]
mod tests {
    use schemas::dead_letter::{Letter, Origin, Original, Reason};

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
        let letter = Letter::new(
            &origin,
            Reason::Conflict,
            "another msg",
            &Original::default(),
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
        assert!(is_of(&record, "chat.inbound", position("3:7")));
        assert!(!is_of(&record, "chat.events", position("3:7")));
        assert!(!is_of(&record, "chat.inbound", position("3:8")));
        let Outcome::Refused { reason, detail } = refused(&record) else {
            panic!("not refused");
        };
        assert_eq!(
            (reason.as_str(), detail.as_str()),
            ("conflict", "another msg")
        );
    }
}
