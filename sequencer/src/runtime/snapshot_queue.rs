//! Limits how many snapshots are stored at once, for the sake of memory and brokers.

use std::collections::{BTreeSet, VecDeque};

use event_log::AssignmentGeneration;
use schemas::Partition;

/// How many snapshots may be stored at once.
const MAX_IN_FLIGHT: usize = 2;

/// First in, first out: a low partition that is always due does not overtake a high one that waits.
#[derive(Default)]
pub(super) struct SnapshotQueue {
    in_flight: BTreeSet<(Partition, AssignmentGeneration)>,
    waiting: VecDeque<(Partition, AssignmentGeneration)>,
}

impl SnapshotQueue {
    /// Whether this shell may store a snapshot now; it is in flight until [`Self::done`]. Otherwise the shell is queued, and calls again.
    pub(super) fn try_start(&mut self, shell: (Partition, AssignmentGeneration)) -> bool {
        if self.in_flight.contains(&shell) {
            return true;
        }
        if !self.waiting.contains(&shell) {
            self.waiting.push_back(shell);
        }
        if self.in_flight.len() >= MAX_IN_FLIGHT || self.waiting.front() != Some(&shell) {
            return false;
        }
        self.waiting.pop_front();
        self.in_flight.insert(shell)
    }

    /// Its snapshot is stored or lost, or the shell is gone.
    pub(super) fn done(&mut self, shell: (Partition, AssignmentGeneration)) {
        self.in_flight.remove(&shell);
        self.waiting.retain(|waiting| *waiting != shell);
    }

    /// Whether none is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_partition_starves_while_all_are_due() {
        let mut queue = SnapshotQueue::default();
        let shells: Vec<_> = Partition::all()
            .map(|partition| (partition, AssignmentGeneration::default()))
            .collect();
        let mut taken = Vec::new();
        while taken.len() < 3 * shells.len() {
            let now: Vec<_> = shells
                .iter()
                .filter(|shell| queue.try_start(**shell))
                .collect();
            assert!(!now.is_empty() && now.len() <= MAX_IN_FLIGHT, "{now:?}");
            for shell in now {
                queue.done(*shell);
                taken.push(*shell);
            }
        }
        for shell in &shells {
            let turns = taken.iter().filter(|taken| *taken == shell).count();
            assert!((2..=4).contains(&turns), "{shell:?}: {turns}");
        }
    }

    #[test]
    fn a_shell_that_is_gone_blocks_no_other() {
        let mut queue = SnapshotQueue::default();
        let [a, b, c, d] = [0, 1, 2, 3].map(|n: i64| {
            (
                Partition::try_from(n).unwrap(),
                AssignmentGeneration::default(),
            )
        });
        assert!(queue.try_start(a) && queue.try_start(b));
        assert!(!queue.try_start(c) && !queue.try_start(d));
        queue.done(c);
        queue.done(a);
        assert!(queue.try_start(d));
        assert!(!queue.is_idle());
    }
}
