//! Finds the dead letter of an inbound record.

use std::ops::ControlFlow;

use event_log::{LogReader, Record};
use schemas::{InboundPosition, TimestampMs, dead_letter::DeadLetterHeaders, topics::Topic};

use super::{
    outcome::Outcome,
    readers::{Budget, LookupError},
};

/// Dead letters are written after their originals, but another broker's clock may have set their time.
const CLOCK_SKEW_MS: i64 = 24 * 3_600_000;

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
            found = told(&record, topic, position);
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

/// What a dead letter says, if it is that of this record.
fn told(letter: &Record, topic: &str, position: InboundPosition) -> Option<Outcome> {
    let told = DeadLetterHeaders::read(|name| letter.header(name))?;
    let InboundPosition { partition, offset } = position;
    let is_its = told.topic == topic && told.partition == partition && told.offset == offset;
    is_its.then(|| Outcome::Refused {
        reason: told.reason.to_string(),
        detail: told.message,
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
        let of = |topic, at| told(&record, topic, position(at));
        assert_eq!(of("chat.inbound", "3:7"), Some(refused));
        assert_eq!(of("chat.events", "3:7"), None);
        assert_eq!(of("chat.inbound", "3:8"), None);
    }
}
