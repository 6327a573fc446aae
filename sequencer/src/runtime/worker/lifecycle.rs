//! How a partition comes to this process, works, halts and leaves.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use event_log::{AssignmentGeneration, RevokeGuard};
use schemas::{NextOffset, Partition};

use super::{
    super::phase::{Owned, Phase, Then},
    LEAVE_DEADLINE, Worker,
};
use crate::shell::{Loaded, PartitionShell};

impl Worker {
    /// Sets the phase of a partition; `None` removes it.
    pub(super) fn set(&mut self, partition: Partition, phase: Option<Phase>) {
        let before = match phase {
            Some(phase) => self.partitions.insert(partition, phase),
            None => self.partitions.remove(partition),
        };
        if let Some(gone) = before.and_then(Phase::into_owned) {
            self.publisher.retired(&gone);
            // A snapshot that is being stored takes memory until it is reported.
            if !gone.shell.is_storing_snapshot() {
                self.effects.snapshot_done(partition, gone.generation);
            }
        }
        self.publisher.phase_changed();
    }

    pub(super) fn start(&mut self, partitions: &[Partition]) {
        for (partition, generation) in self.starts.begin(partitions) {
            self.set(partition, Some(Phase::Loading(generation)));
        }
    }

    pub(super) fn begin(
        &mut self,
        partition: Partition,
        generation: AssignmentGeneration,
        loaded: Loaded,
    ) {
        let now = self.now_ms;
        let shell = PartitionShell::start(partition, loaded, self.shell_config, now);
        let next = NextOffset::new(shell.next_inbound());
        self.fetcher.start(partition, next);
        self.halted.resumed(partition, next);
        self.set(
            partition,
            Some(Phase::Working(Owned::new(shell, generation))),
        );
    }

    /// Drops a partition that cannot go on. It is loaded again after `retry_in`, if given.
    pub(super) fn halt(
        &mut self,
        partition: Partition,
        before: Option<NextOffset>,
        why: String,
        retry_in: Option<Duration>,
    ) {
        self.fetcher.stop(partition);
        let Some(generation) = self.partitions.get(partition).map(Phase::generation) else {
            return;
        };
        self.halted.halt(partition, before, why);
        let retry_at = retry_in.map(|retry_in| Instant::now() + retry_in);
        self.set(
            partition,
            Some(Phase::Halted {
                generation,
                retry_at,
            }),
        );
    }

    /// Loads a partition again. The load compares the log with what was sequenced from it.
    pub(super) fn restart(&mut self, partition: Partition) {
        if let Some(Phase::Working(_)) = self.partitions.get(partition) {
            tracing::warn!(%partition, "its position was out of range in chat.inbound for a while; restarting");
            self.stop(partition, || Then::Reload);
        }
    }

    /// Stops reading a partition, and waits for its records in flight before `then`.
    pub(super) fn stop(&mut self, partition: Partition, then: impl FnOnce() -> Then) {
        self.fetcher.stop(partition);
        let owned = self.partitions.remove(partition);
        if let Some(owned) = owned.and_then(Phase::into_owned) {
            let leaving = Phase::Leaving {
                owned,
                until: Instant::now() + LEAVE_DEADLINE,
                then: then(),
            };
            self.partitions.insert(partition, leaving);
        }
        self.publisher.phase_changed();
    }

    pub(super) fn leave(&mut self, partitions: &[Partition], guard: RevokeGuard) {
        let guard = Arc::new(guard);
        for &partition in partitions {
            self.halted.release(partition);
            self.stop(partition, || Then::Release(Arc::clone(&guard)));
        }
    }

    /// Drops a partition's shell.
    pub(super) fn finish_leaving(&mut self, partition: Partition) {
        let release = matches!(
            self.partitions.get(partition),
            Some(Phase::Leaving {
                then: Then::Release(_),
                ..
            })
        );
        if release {
            self.set(partition, None);
        } else {
            self.start(&[partition]);
        }
    }
}
