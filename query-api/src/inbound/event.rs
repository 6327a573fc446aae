//! Finds the event of an inbound record in `chat.events`.

use std::ops::{ControlFlow, Range};

use api::Outcome;
use event_log::{LogReader, Record};
use schemas::{
    InboundPosition, TimestampMs,
    event::{ReadError, SourceOffset, UnknownRules},
    topics::Topic,
};

use super::{
    epoch_of::epoch_of,
    outcome,
    reader_pool::{LookupError, ScanBudget},
};

/// How many events before the time of a record are searched as well: the progress after a record without an event may be there.
const SEARCH_BACK: i64 = 1_000;

/// What `chat.events` contains about a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EventLookup {
    /// The sequencer has not reached the record.
    NotSequenced,
    /// The record caused an event, which has this outcome.
    Event(Outcome),
    /// The record was sequenced and caused no event.
    NoEvent {
        /// The offset of an event after the record: everything that was sequenced before the record is below.
        below: i64,
    },
}

/// Looks up the record at `position`, which was appended at `appended`.
///
/// The time of an event is that of its cause or later, so the record's event is not before the first event of that time. The progress after a record
/// that caused no event can be before it: progress has the clock of the state, which only events move.
pub(super) fn find(
    reader: &LogReader,
    position: InboundPosition,
    appended: TimestampMs,
    current_epoch: u32,
    budget: &mut ScanBudget,
) -> Result<EventLookup, LookupError> {
    let InboundPosition { partition, offset } = position;
    let bounds = reader.bounds(Topic::Events, &[partition])?;
    let Some(bounds) = bounds.get(partition) else {
        return Ok(EventLookup::NotSequenced);
    };
    let at = reader.offsets_at(Topic::Events, &[partition], appended)?;
    let from = at.get(partition).map_or(bounds.start, |at| *at);
    let epoch = epoch_of(reader, position, from..bounds.end, current_epoch, budget)?;
    let sought = SourceOffset { epoch, offset };
    let back = (from - SEARCH_BACK).max(bounds.start);
    for range in [from..bounds.end, back..from.min(bounds.end)] {
        let found = scan(reader, position, range, sought, budget)?;
        if found != EventLookup::NotSequenced {
            return Ok(found);
        }
    }
    Ok(EventLookup::NotSequenced)
}

fn scan(
    reader: &LogReader,
    position: InboundPosition,
    range: Range<i64>,
    sought: SourceOffset,
    budget: &mut ScanBudget,
) -> Result<EventLookup, LookupError> {
    let mut found = Ok(EventLookup::NotSequenced);
    reader.scan(Topic::Events, &[(position.partition, range)], |record| {
        found = lookup_in(&record, sought);
        if found != Ok(EventLookup::NotSequenced) {
            return ControlFlow::Break(());
        }
        budget.spend()
    })?;
    let found = found?;
    if found == EventLookup::NotSequenced {
        budget.check()?;
    }
    Ok(found)
}

/// What one event shows. Source offsets rise at their first occurrence, and repeats of a former owner come later, so the first event at or above the
/// sought offset decides. An event that only a newer program can read may be the sought one.
fn lookup_in(record: &Record, sought: SourceOffset) -> Result<EventLookup, UnknownRules> {
    let no_event = EventLookup::NoEvent {
        below: record.offset,
    };
    Ok(match record.event() {
        Ok(event) if event.src.offset == sought => {
            outcome::of_event(record.offset, event).map_or(no_event, EventLookup::Event)
        }
        Ok(event) if event.src.offset > sought => no_event,
        // The projectors report records that are not events.
        Ok(_) | Err(ReadError::Skipped(_)) => EventLookup::NotSequenced,
        Err(ReadError::UnknownRules(newer)) => return Err(newer),
    })
}

#[cfg(test)]
mod tests {
    use schemas::{
        Partition,
        event::{Body, Event, KNOWN_RULE_VERSION, Rules, Source},
    };

    use super::*;

    fn record(watermark: SourceOffset, body: Body) -> Record {
        let event = Event {
            src: Source {
                offset: watermark,
                leader_epoch: 0,
            },
            ts: TimestampMs(5),
            body,
            command: None,
            words: None,
        };
        Record {
            partition: Partition::try_from(3).unwrap(),
            offset: 70,
            timestamp: event.ts,
            leader_epoch: 0,
            key: None,
            value: Some(event.encode()),
            headers: vec![],
        }
    }

    #[test]
    fn the_first_event_at_or_above_decides() {
        let watermark = |epoch, offset| SourceOffset { epoch, offset };
        let sought = watermark(1, 7);
        let control = || Body::Control(Rules::VERSION_1);
        let no_event = EventLookup::NoEvent { below: 70 };
        for (record, expected) in [
            (
                record(watermark(1, 6), control()),
                EventLookup::NotSequenced,
            ),
            (
                record(watermark(0, 8), control()),
                EventLookup::NotSequenced,
            ),
            (record(watermark(1, 8), control()), no_event.clone()),
            (record(watermark(2, -1), Body::Progress), no_event.clone()),
            (record(watermark(1, 7), Body::Progress), no_event),
        ] {
            assert_eq!(lookup_in(&record, sought), Ok(expected));
        }
        let found = lookup_in(&record(sought, control()), sought);
        let changed = Outcome::RulesChanged {
            events_offset: 70,
            ts: "1970-01-01T00:00:00.005Z".to_owned(),
        };
        assert_eq!(found, Ok(EventLookup::Event(changed)));
    }

    #[test]
    fn a_record_that_is_not_an_event_is_skipped() {
        let mut broken = record(SourceOffset::START, Body::Progress);
        broken.value = Some(b"junk".to_vec());
        assert_eq!(
            lookup_in(&broken, SourceOffset::START),
            Ok(EventLookup::NotSequenced)
        );
    }

    #[test]
    fn an_event_of_a_newer_program_ends_the_look_up() {
        let rules = Rules {
            rule_version: KNOWN_RULE_VERSION + 1,
            ..Rules::VERSION_1
        };
        let newer = record(SourceOffset::START, Body::Control(rules));
        assert_eq!(
            lookup_in(&newer, SourceOffset::START),
            Err(UnknownRules::Version(KNOWN_RULE_VERSION + 1))
        );
    }
}
