//! Finds in `chat.events` what an inbound record caused.

use std::ops::{ControlFlow, Range};

use event_log::{LogReader, Record};
use schemas::{InboundPosition, TimestampMs, event::SourceOffset, topics::Topic};

use super::{
    outcome::Outcome,
    readers::{Budget, LookupError},
};

/// How far before its own time a record that emitted nothing is looked for.
const LOOK_BACK: i64 = 1_000;

/// What the sequencer did about a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It has not come to it yet.
    Pending,
    /// It caused an event, which says this.
    Emitted(Outcome),
    /// It caused none.
    Silent {
        /// The offset of an event that answers for it: everything that was sequenced before it is below.
        before: i64,
    },
}

/// Looks for the fate of the record at `position`, which was appended at `appended`.
///
/// The times of events are those of their causes or later, so its event cannot lie before the first one of that time. A record that
/// answers for one that emitted nothing can: progress carries the clock of the state, which nothing silent moves.
pub(super) fn find(
    reader: &LogReader,
    position: InboundPosition,
    appended: TimestampMs,
    epoch: u32,
    budget: &mut Budget,
) -> Result<Fate, LookupError> {
    let InboundPosition { partition, offset } = position;
    let sought = SourceOffset { epoch, offset };
    let bounds = reader.bounds(Topic::Events, &[partition])?;
    let Some(bounds) = bounds.get(&partition) else {
        return Ok(Fate::Pending);
    };
    let at = reader.offsets_at(Topic::Events, &[partition], appended)?;
    let from = at.get(&partition).map_or(bounds.start, |at| *at);
    let back = (from - LOOK_BACK).max(bounds.start);
    for range in [from..bounds.end, back..from.min(bounds.end)] {
        let fate = scan(reader, position, range, sought, budget)?;
        if fate != Fate::Pending {
            return Ok(fate);
        }
    }
    Ok(Fate::Pending)
}

fn scan(
    reader: &LogReader,
    position: InboundPosition,
    range: Range<i64>,
    sought: SourceOffset,
    budget: &mut Budget,
) -> Result<Fate, LookupError> {
    let mut fate = Fate::Pending;
    reader.scan(Topic::Events, &[(position.partition, range)], |record| {
        fate = told_by(&record, sought);
        if fate != Fate::Pending {
            return ControlFlow::Break(());
        }
        budget.spend()
    })?;
    if fate == Fate::Pending {
        budget.check()?;
    }
    Ok(fate)
}

/// What one record tells. Sources appear in order the first time, and repeats of a former owner come only later, so the first record at or
/// above what is sought decides.
fn told_by(record: &Record, sought: SourceOffset) -> Fate {
    let silent = Fate::Silent {
        before: record.offset,
    };
    match record.event() {
        Ok(event) if event.src.offset == sought => {
            Outcome::of_event(record.offset, event).map_or(silent, Fate::Emitted)
        }
        Ok(event) if event.src.offset > sought => silent,
        // What is no event is the projectors' to report.
        Ok(_) | Err(_) => Fate::Pending,
    }
}

#[cfg(test)]
mod tests {
    use schemas::{
        Partition,
        event::{Body, Event, Rules, Source},
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
    fn the_first_record_at_or_above_decides() {
        let watermark = |epoch, offset| SourceOffset { epoch, offset };
        let sought = watermark(1, 7);
        let control = || Body::Control(Rules::VERSION_1);
        let silent = Fate::Silent { before: 70 };
        for (record, fate) in [
            (record(watermark(1, 6), control()), Fate::Pending),
            (record(watermark(0, 8), control()), Fate::Pending),
            (record(watermark(1, 8), control()), silent.clone()),
            (record(watermark(2, -1), Body::Progress), silent.clone()),
            (record(watermark(1, 7), Body::Progress), silent),
        ] {
            assert_eq!(told_by(&record, sought), fate);
        }
        let found = told_by(&record(sought, control()), sought);
        let changed = Outcome::RulesChanged {
            events_offset: 70,
            ts: "1970-01-01T00:00:00.005Z".to_owned(),
        };
        assert_eq!(found, Fate::Emitted(changed));
    }

    #[test]
    fn what_is_no_event_tells_nothing() {
        let mut broken = record(SourceOffset::START, Body::Progress);
        broken.value = Some(b"junk".to_vec());
        assert_eq!(told_by(&broken, SourceOffset::START), Fate::Pending);
    }
}
