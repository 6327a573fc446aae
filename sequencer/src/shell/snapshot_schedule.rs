//! When a snapshot is taken, and where the one taken is (PROTOCOL S12).

use schemas::{PARTITIONS, Partition, proto::SequencerSnapshot};

use super::{Io, ShellConfig, SnapshotTicket, Ticket, known_log::KnownLog};
use crate::sabotage::{Rule, dropped};

/// At most one snapshot exists at a time, so memory is bounded by one copy of the state.
enum Phase {
    Idle,
    /// A copy of the state behind an event that is not acknowledged yet.
    Behind {
        event: Ticket,
        snapshot: SequencerSnapshot,
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

    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        let old = now_ms.saturating_sub(self.since_ms) >= self.wait_ms;
        matches!(self.phase, Phase::Idle)
            && (self.events >= self.max_events || (old && self.events > 0))
    }

    /// Keeps a copy of the state behind an event, until that is acknowledged.
    pub(super) fn take(&mut self, event: Ticket, snapshot: SequencerSnapshot, now_ms: u64) {
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
        let Phase::Behind { mut snapshot, .. } = taken else {
            self.phase = taken;
            return;
        };
        self.next_ticket += 1;
        let (offset, before) = log.whole();
        snapshot.events_offset = offset;
        snapshot.src_before_offset = before.map(Into::into);
        if dropped(Rule::S12Offset) {
            snapshot.events_offset = log.sabotaged_whole();
            snapshot.src_before_offset = snapshot.src;
        }
        io.store_snapshot(ticket, snapshot);
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
