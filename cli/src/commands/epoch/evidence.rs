//! What the records of `chat.inbound` that are retained say of whether they are those that were sequenced.

use std::{
    collections::BTreeMap,
    ops::{ControlFlow, Range},
};

use event_log::{Bounds, EventLogError};
use schemas::event::{Body, Event, Source, SourceOffset};

use super::logs::{Kept, Logs};

/// How many records of `chat.events` are held at once.
const WINDOW: i64 = 4_000;

/// A record that is the one that was sequenced: all before it were sequenced too, since a log loses its end only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agreed {
    pub(super) offset: i64,
    pub(super) leader_epoch: i32,
}

/// What the newest events that speak of retained records come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Evidence {
    /// The highest record that its event agrees with.
    pub(super) agreed: Option<Agreed>,
    /// The lowest offset above it at which another record lies than the one that was sequenced in the newest epoch.
    pub(super) differs_at: Option<i64>,
}

impl Evidence {
    /// Looks back through `chat.events`: until one agrees, or to where no event can be a retained record's any more, since an event is
    /// no older than its cause (PROTOCOL S2); and until one differs, or to where the newest epoch's speak of older records only.
    pub(super) fn gather(
        last: Source,
        inbound: Bounds,
        logs: &impl Logs,
    ) -> Result<Self, EventLogError> {
        let mut evidence = Self::default();
        let retained = inbound.start..inbound.end;
        let Some(oldest) = logs.first_inbound(retained.clone())? else {
            return Ok(evidence);
        };
        let below = SourceOffset {
            epoch: last.offset.epoch,
            offset: inbound.start,
        };
        let may_agree_from = logs.events_since(oldest.appended)?;
        let Range { start, mut end } = logs.events_held()?;
        let mut may_differ = true;
        while start < end
            && evidence.agreed.is_none()
            && (may_agree_from < end || may_differ && evidence.differs_at.is_none())
        {
            let from = start.max(end - WINDOW);
            let mut told = logs.events(from..end)?;
            let highest = told.iter().map(|event| event.src.offset).max();
            may_differ &= highest.is_none_or(|highest| highest >= below);
            told.retain(|event| {
                event.body != Body::Progress && retained.contains(&event.src.offset.offset)
            });
            evidence.weigh(last, told, logs)?;
            end = from;
        }
        Ok(evidence)
    }

    fn weigh(
        &mut self,
        last: Source,
        told: Vec<Event>,
        logs: &impl Logs,
    ) -> Result<(), EventLogError> {
        let mut by_offset: BTreeMap<i64, Vec<Event>> = BTreeMap::new();
        for event in told {
            let of_one = by_offset.entry(event.src.offset.offset).or_default();
            of_one.push(event);
        }
        let (Some(lowest), Some(highest)) = (
            by_offset.keys().next().copied(),
            by_offset.keys().next_back().copied(),
        ) else {
            return Ok(());
        };
        let mut differing = Vec::new();
        logs.scan_inbound(lowest..highest + 1, &mut |kept| {
            let of_this = by_offset
                .get(&kept.offset)
                .map_or(&[][..], |events| events.as_slice());
            if of_this.iter().any(|event| is_cause(&kept, event)) {
                self.agreed = Some(Agreed {
                    offset: kept.offset,
                    leader_epoch: kept.leader_epoch,
                });
                differing.clear();
            } else if is_of_epoch(of_this, last.offset.epoch) {
                differing.push(kept.offset);
                differing.truncate(1);
            }
            ControlFlow::Continue(())
        })?;
        // What was looked at before lies above.
        self.differs_at = differing.first().copied().or(self.differs_at);
        Ok(())
    }
}

fn is_of_epoch(events: &[Event], epoch: u32) -> bool {
    events.iter().any(|event| event.src.offset.epoch == epoch)
}

/// Whether this record may be the one that caused the event. A topic that was created anew has the old one's leader epochs, and may
/// have been sent the same at the same offset; but only after the event.
fn is_cause(kept: &Kept, event: &Event) -> bool {
    kept.appended <= event.ts
        && !was_led_otherwise(event.src, kept)
        && kept
            .command
            .as_ref()
            .is_some_and(|command| command.mismatched_field(&event.body).is_none())
}

/// Whether the record that was sequenced came from another leader; −1 is a leader epoch that was not known.
pub(super) fn was_led_otherwise(src: Source, kept: &Kept) -> bool {
    src.leader_epoch >= 0 && kept.leader_epoch >= 0 && src.leader_epoch != kept.leader_epoch
}
