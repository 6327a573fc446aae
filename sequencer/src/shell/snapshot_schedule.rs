//! When a snapshot is taken, and where the one taken is (PROTOCOL S12).

use schemas::{PARTITIONS, Partition};

use super::{Io, ShellConfig, SnapshotTicket, Ticket, known_log::KnownLog};
use crate::{
    core::{State, snapshot::Snapshot},
    sabotage::{Rule, dropped},
};

/// At most one snapshot exists at a time, so memory is bounded by one copy of the state.
enum Phase {
    Idle,
    /// A copy of the state behind an event that is not acknowledged yet.
    Behind {
        event: Ticket,
        snapshot: Snapshot,
    },
    Storing(SnapshotTicket),
}

pub(super) struct SnapshotSchedule {
    max_events: u64,
    interval_ms: u64,
    /// How old the last one may be: an interval, or for the first one less.
    wait_ms: u64,
    /// Events folded or emitted since the last one.
    events: u64,
    since_ms: u64,
    phase: Phase,
    next_ticket: u64,
}

impl SnapshotSchedule {
    /// Partitions that start together have their first one at different times, spread over the first interval.
    pub(super) fn new(
        config: &ShellConfig,
        partition: Partition,
        folded: u64,
        now_ms: u64,
    ) -> Self {
        let interval_ms = config.snapshot_interval_ms;
        let share = partition.index() as u64 + 1;
        Self {
            max_events: config.snapshot_events,
            interval_ms,
            wait_ms: interval_ms.saturating_mul(share) / PARTITIONS as u64,
            events: folded,
            since_ms: now_ms,
            phase: Phase::Idle,
            next_ticket: 0,
        }
    }

    /// The state has changed.
    pub(super) fn changed(&mut self) {
        self.events += 1;
    }

    /// A snapshot costs as much as its state is large. So that of a large one waits for half as many events as the state holds
    /// sends and conversations, and for a longer time in the same proportion: what is written for an event has a bound.
    pub(super) fn is_due(&self, now_ms: u64, state: &State) -> bool {
        let holds = (state.conversations() + state.dedup_entries()) as u64;
        let events = self.max_events.max(holds / 2);
        let wait_ms = self.wait_ms.saturating_mul(events) / self.max_events.max(1);
        let old = now_ms.saturating_sub(self.since_ms) >= wait_ms;
        matches!(self.phase, Phase::Idle) && (self.events >= events || (old && self.events > 0))
    }

    /// Keeps a copy of the state behind an event, until that is acknowledged.
    pub(super) fn take(&mut self, event: Ticket, snapshot: Snapshot, now_ms: u64) {
        self.events = 0;
        self.since_ms = now_ms;
        self.wait_ms = self.interval_ms;
        self.phase = Phase::Behind { event, snapshot };
    }

    /// The event whose acknowledgement the copy waits for.
    pub(super) fn waits_for(&self) -> Option<Ticket> {
        match &self.phase {
            Phase::Behind { event, .. } => Some(*event),
            Phase::Idle | Phase::Storing(_) => None,
        }
    }

    /// The event was acknowledged: the copy goes to the store, with the place up to which the log is known whole now.
    pub(super) fn store(&mut self, log: &KnownLog, io: &mut impl Io) {
        let ticket = SnapshotTicket(self.next_ticket);
        let taken = std::mem::replace(&mut self.phase, Phase::Storing(ticket));
        let Phase::Behind { snapshot, .. } = taken else {
            self.phase = taken;
            return;
        };
        self.next_ticket += 1;
        let (offset, before) = if dropped(Rule::S12Offset) {
            (log.sabotaged_whole(), Some(snapshot.src()))
        } else {
            log.whole()
        };
        io.store_snapshot(ticket, snapshot.at(offset, before));
    }

    /// It is stored, or was lost: then the next one is as good.
    pub(super) fn stored(&mut self, ticket: SnapshotTicket) {
        if matches!(self.phase, Phase::Storing(storing) if storing == ticket) {
            self.phase = Phase::Idle;
        }
    }

    pub(super) fn is_storing(&self) -> bool {
        matches!(self.phase, Phase::Storing(_))
    }
}
