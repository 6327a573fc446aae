//! When a snapshot is due, and the one being taken (PROTOCOL S12).

use schemas::{PARTITIONS, Partition};

use super::{
    Loaded, OutputId, ShellConfig, ShellEffects, SnapshotWriteId, append_tracker::AppendTracker,
};
use crate::core::snapshot::Snapshot;

/// At most one snapshot exists at a time, so memory is bounded by one copy of the state.
enum Phase {
    Idle,
    /// A copy of the state after an event that is not yet acknowledged.
    Waiting {
        event: OutputId,
        snapshot: Box<Snapshot>,
    },
    Storing(SnapshotWriteId),
}

/// When the next snapshot is due: after `events` events, or after one event if the last snapshot is `age_ms` old.
#[derive(Clone, Copy)]
struct Due {
    events: u64,
    age_ms: u64,
}

impl Due {
    /// The cost of a snapshot is proportional to its number of entries. So after a large one the next is due after half as many events as it had
    /// entries, and the interval grows in the same proportion. That bounds the bytes written per event.
    fn after(entries: usize, config: &ShellConfig) -> Self {
        let usual = config.snapshot_events.max(1);
        let events = usual.max(entries as u64 / 2);
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
    /// Depends on the last snapshot only, so that the due time does not move while the state grows.
    due: Due,
    /// Events folded or emitted since the last snapshot.
    events: u64,
    since_ms: u64,
    phase: Phase,
    next_id: u64,
}

impl SnapshotSchedule {
    /// The first snapshots of partitions that start together are spread over the first interval.
    pub(super) fn new(
        config: ShellConfig,
        partition: Partition,
        loaded: &Loaded,
        now_ms: u64,
    ) -> Self {
        let mut due = Due::after(loaded.state.entries(), &config);
        let share = partition.index() as u64 + 1;
        due.age_ms = due.age_ms.saturating_mul(share) / PARTITIONS as u64;
        Self {
            config,
            due,
            events: loaded.folded,
            since_ms: now_ms,
            phase: Phase::Idle,
            next_id: 0,
        }
    }

    /// Call this when the state has changed.
    pub(super) fn changed(&mut self) {
        self.events += 1;
    }

    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        let old = now_ms.saturating_sub(self.since_ms) >= self.due.age_ms;
        matches!(self.phase, Phase::Idle)
            && (self.events >= self.due.events || (old && self.events > 0))
    }

    /// Keeps a copy of the state after an event until the event is acknowledged.
    pub(super) fn take(&mut self, event: OutputId, snapshot: Snapshot, now_ms: u64) {
        self.events = 0;
        self.since_ms = now_ms;
        self.due = Due::after(snapshot.entries(), &self.config);
        self.phase = Phase::Waiting {
            event,
            snapshot: Box::new(snapshot),
        };
    }

    /// The event whose acknowledgement the snapshot waits for.
    pub(super) fn waits_for(&self) -> Option<OutputId> {
        match &self.phase {
            Phase::Waiting { event, .. } => Some(*event),
            Phase::Idle | Phase::Storing(_) => None,
        }
    }

    /// Call this when the event was acknowledged: writes the snapshot, with the offset at which a fold must continue.
    pub(super) fn store(&mut self, appends: &AppendTracker, effects: &mut impl ShellEffects) {
        let id = SnapshotWriteId(self.next_id);
        let taken = std::mem::replace(&mut self.phase, Phase::Storing(id));
        let Phase::Waiting { snapshot, .. } = taken else {
            self.phase = taken;
            return;
        };
        self.next_id += 1;
        let (offset, before) = appends.complete_up_to();
        effects.store_snapshot(id, snapshot.at(offset, before));
    }

    /// The snapshot was stored, or failed; then the next one replaces it.
    pub(super) fn stored(&mut self, id: SnapshotWriteId) {
        if matches!(self.phase, Phase::Storing(storing) if storing == id) {
            self.phase = Phase::Idle;
        }
    }

    pub(super) fn is_storing(&self) -> bool {
        matches!(self.phase, Phase::Storing(_))
    }
}
