//! When a snapshot is taken, and where the one taken is (PROTOCOL S12).

use schemas::{PARTITIONS, Partition};

use super::{Io, Loaded, ShellConfig, SnapshotTicket, Ticket, known_log::KnownLog};
use crate::{
    core::snapshot::Snapshot,
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

/// When the next snapshot is due: after so many events, or after any of them when the last one is so old.
#[derive(Clone, Copy)]
struct Due {
    events: u64,
    age_ms: u64,
}

impl Due {
    /// A snapshot costs as much as its state is large. So a state that held much waits for half as many events as it held
    /// sends and conversations, and for a longer time in the same proportion: what is written for an event has a bound.
    fn after(held: usize, config: &ShellConfig) -> Self {
        let usual = config.snapshot_events.max(1);
        let events = usual.max(held as u64 / 2);
        let interval_ms = u128::from(config.snapshot_interval_ms);
        let age_ms = interval_ms * u128::from(events) / u128::from(usual);
        Self {
            events,
            age_ms: u64::try_from(age_ms).unwrap_or(u64::MAX),
        }
    }
}

pub(super) struct SnapshotSchedule {
    config: ShellConfig,
    /// Settled by what the last one held, so that whatever comes brings the next one nearer.
    due: Due,
    /// Events folded or emitted since the last one.
    events: u64,
    since_ms: u64,
    phase: Phase,
    next_ticket: u64,
}

impl SnapshotSchedule {
    /// Partitions that start together have their first one at different times, spread over the first interval.
    pub(super) fn new(
        config: ShellConfig,
        partition: Partition,
        loaded: &Loaded,
        now_ms: u64,
    ) -> Self {
        let mut due = Due::after(loaded.state.held(), &config);
        let share = partition.index() as u64 + 1;
        due.age_ms = due.age_ms.saturating_mul(share) / PARTITIONS as u64;
        Self {
            config,
            due,
            events: loaded.folded,
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
        let old = now_ms.saturating_sub(self.since_ms) >= self.due.age_ms;
        matches!(self.phase, Phase::Idle)
            && (self.events >= self.due.events || (old && self.events > 0))
    }

    /// Keeps a copy of the state behind an event, until that is acknowledged.
    pub(super) fn take(&mut self, event: Ticket, snapshot: Snapshot, now_ms: u64) {
        self.events = 0;
        self.since_ms = now_ms;
        self.due = Due::after(snapshot.held(), &self.config);
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
