//! Limits how many snapshots are stored at once, for the sake of memory and brokers.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use event_log::AssignmentGeneration;
use schemas::Partition;

/// How many snapshots may be stored at once.
const MAX_IN_FLIGHT: usize = 2;

/// First in, first out: a low partition that is always due does not overtake a high one that waits.
#[derive(Default)]
pub(super) struct SnapshotQueue {
    /// The snapshots being stored, and since when.
    in_flight: BTreeMap<(Partition, AssignmentGeneration), Instant>,
    waiting: VecDeque<(Partition, AssignmentGeneration)>,
}

impl SnapshotQueue {
    /// Whether this shell may store a snapshot now; it is in flight until [`Self::done`]. If not, the shell is queued and asks again.
    pub(super) fn try_start(
        &mut self,
        shell: (Partition, AssignmentGeneration),
        now: Instant,
    ) -> bool {
        if self.in_flight.contains_key(&shell) {
            return true;
        }
        if !self.waiting.contains(&shell) {
            self.waiting.push_back(shell);
        }
        if self.in_flight.len() >= MAX_IN_FLIGHT || self.waiting.front() != Some(&shell) {
            return false;
        }
        self.waiting.pop_front();
        self.in_flight.insert(shell, now);
        true
    }

    /// How long the oldest snapshot has been in flight; zero if there is none.
    pub(super) fn longest(&self, now: Instant) -> Duration {
        let since = self.in_flight.values().min();
        since.map_or(Duration::ZERO, |since| now.duration_since(*since))
    }

    /// Call this when the shell's snapshot is stored or lost, or the shell is gone.
    pub(super) fn done(&mut self, shell: (Partition, AssignmentGeneration)) {
        self.in_flight.remove(&shell);
        self.waiting.retain(|waiting| *waiting != shell);
    }

    /// Whether no snapshot is in flight.
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
                .filter(|shell| queue.try_start(**shell, Instant::now()))
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
    fn the_oldest_in_flight_counts() {
        let mut queue = SnapshotQueue::default();
        let [a, b] = [0, 1].map(|n: i64| (n.try_into().unwrap(), AssignmentGeneration::default()));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(queue.longest(start), Duration::ZERO);
        assert!(queue.try_start(a, start) && queue.try_start(b, at(4)));
        assert!(queue.try_start(a, at(9)), "it is in flight already");
        assert_eq!(queue.longest(at(9)), Duration::from_secs(9));
        queue.done(a);
        assert_eq!(queue.longest(at(9)), Duration::from_secs(5));
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
        let now = Instant::now();
        assert!(queue.try_start(a, now) && queue.try_start(b, now));
        assert!(!queue.try_start(c, now) && !queue.try_start(d, now));
        queue.done(c);
        queue.done(a);
        assert!(queue.try_start(d, now));
        assert!(!queue.is_idle());
    }
}
