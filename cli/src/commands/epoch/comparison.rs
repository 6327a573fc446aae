//! Compares the retained records of `chat.inbound` with the events that name them as their source.

use schemas::OffsetRange;
use std::{
    collections::BTreeMap,
    ops::{ControlFlow, Range},
};

use event_log::EventLogError;
use schemas::event::{Body, Event, Source, SourceOffset};

use super::logs::{InboundRecord, Logs};

/// How many records of `chat.events` are read at once.
const WINDOW: i64 = 4_000;

/// A retained record that is the one that was sequenced. All records before it were sequenced too, since a log loses only its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MatchedRecord {
    pub(super) offset: i64,
    pub(super) leader_epoch: i32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LogComparison {
    /// The newest record that matches its event.
    pub(super) newest_match: Option<MatchedRecord>,
    /// The lowest offset above `newest_match` whose record is not the one that was sequenced in the newest epoch.
    pub(super) lowest_mismatch: Option<i64>,
}

impl LogComparison {
    /// Reads `chat.events` backwards until two searches have ended. The first ends at an event that matches, or if no earlier event can have a
    /// retained source, since an event is no older than its source (PROTOCOL S2). The second ends at an event that differs, or if the newest epoch's
    /// events have only older sources.
    pub(super) fn read(
        last: Source,
        inbound: OffsetRange,
        logs: &impl Logs,
    ) -> Result<Self, EventLogError> {
        let mut comparison = Self::default();
        let retained = inbound.start..inbound.end;
        let Some(oldest) = logs.first_inbound(retained.clone())? else {
            return Ok(comparison);
        };
        let below = SourceOffset {
            epoch: last.offset.epoch,
            offset: inbound.start,
        };
        let may_match_from = logs.events_since(oldest.appended)?;
        let Range { start, mut end } = logs.events_range()?;
        let mut may_differ = true;
        while start < end
            && comparison.newest_match.is_none()
            && (may_match_from < end || may_differ && comparison.lowest_mismatch.is_none())
        {
            let from = start.max(end - WINDOW);
            let mut events = logs.events(from..end)?;
            let highest = events.iter().map(|event| event.src.offset).max();
            may_differ &= highest.is_none_or(|highest| highest >= below);
            events.retain(|event| {
                event.body != Body::Progress && retained.contains(&event.src.offset.offset)
            });
            comparison.compare_window(last, events, logs)?;
            end = from;
        }
        Ok(comparison)
    }

    fn compare_window(
        &mut self,
        last: Source,
        events: Vec<Event>,
        logs: &impl Logs,
    ) -> Result<(), EventLogError> {
        let mut by_offset: BTreeMap<i64, Vec<Event>> = BTreeMap::new();
        for event in events {
            let events_of_record = by_offset.entry(event.src.offset.offset).or_default();
            events_of_record.push(event);
        }
        let (Some(lowest), Some(highest)) = (
            by_offset.keys().next().copied(),
            by_offset.keys().next_back().copied(),
        ) else {
            return Ok(());
        };
        let mut mismatches = Vec::new();
        logs.scan_inbound(lowest..highest + 1, &mut |record| {
            let events_of_record = by_offset
                .get(&record.offset)
                .map_or(&[][..], |events| events.as_slice());
            if events_of_record
                .iter()
                .any(|event| may_be_source(&record, event))
            {
                self.newest_match = Some(MatchedRecord {
                    offset: record.offset,
                    leader_epoch: record.leader_epoch,
                });
                mismatches.clear();
            } else if is_of_epoch(events_of_record, last.offset.epoch) {
                mismatches.push(record.offset);
                mismatches.truncate(1);
            }
            ControlFlow::Continue(())
        })?;
        // Later windows were read before and are above this one.
        self.lowest_mismatch = mismatches.first().copied().or(self.lowest_mismatch);
        Ok(())
    }
}

fn is_of_epoch(events: &[Event], epoch: u32) -> bool {
    events.iter().any(|event| event.src.offset.epoch == epoch)
}

/// Whether this record may be the event's source. In a topic that was created again the same content can have the same offset and leader
/// epoch, but its record is younger than the event.
fn may_be_source(record: &InboundRecord, event: &Event) -> bool {
    record.appended <= event.ts
        && !has_other_leader(event.src, record)
        && record
            .command
            .as_ref()
            .is_some_and(|command| command.mismatched_field(&event.body).is_none())
        && event
            .command
            .as_ref()
            .is_none_or(|command| command.id.as_str() == record.id)
}

/// Whether the sequenced record had another leader; −1 is an unknown leader epoch.
pub(super) fn has_other_leader(src: Source, record: &InboundRecord) -> bool {
    src.leader_epoch >= 0 && record.leader_epoch >= 0 && src.leader_epoch != record.leader_epoch
}
