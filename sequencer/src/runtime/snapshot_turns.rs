//! Whose snapshot is next: few at a time, so that memory and brokers are not asked for all of them at once.

use std::collections::{BTreeSet, VecDeque};

use schemas::Partition;

use super::effects::Run;

/// How many snapshots may be under way.
const AT_ONCE: usize = 2;

/// First come, first served: a low partition that is always due does not pass a high one that waits.
#[derive(Default)]
pub(super) struct SnapshotTurns {
    under_way: BTreeSet<(Partition, Run)>,
    waiting: VecDeque<(Partition, Run)>,
}

impl SnapshotTurns {
    /// Whether it is the turn of this shell, which then has it until [`Self::done`]. One whose turn it is not waits
    /// in line and asks again.
    pub(super) fn ask(&mut self, shell: (Partition, Run)) -> bool {
        if self.under_way.contains(&shell) {
            return true;
        }
        if !self.waiting.contains(&shell) {
            self.waiting.push_back(shell);
        }
        if self.under_way.len() >= AT_ONCE || self.waiting.front() != Some(&shell) {
            return false;
        }
        self.waiting.pop_front();
        self.under_way.insert(shell)
    }

    /// Its snapshot is stored or lost, or the shell is gone.
    pub(super) fn done(&mut self, shell: (Partition, Run)) {
        self.under_way.remove(&shell);
        self.waiting.retain(|waiting| *waiting != shell);
    }

    /// Whether none is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_partitions_that_are_always_due_get_their_turns() {
        let mut turns = SnapshotTurns::default();
        let shells: Vec<_> = Partition::all().map(|partition| (partition, 1)).collect();
        let mut taken = Vec::new();
        while taken.len() < 3 * shells.len() {
            let now: Vec<_> = shells.iter().filter(|shell| turns.ask(**shell)).collect();
            assert!(!now.is_empty() && now.len() <= AT_ONCE, "{now:?}");
            for shell in now {
                turns.done(*shell);
                taken.push(*shell);
            }
        }
        for shell in &shells {
            let turns = taken.iter().filter(|taken| *taken == shell).count();
            assert!((2..=4).contains(&turns), "{shell:?}: {turns}");
        }
    }

    #[test]
    fn a_shell_that_is_gone_holds_nobody_up() {
        let mut turns = SnapshotTurns::default();
        let [a, b, c, d] = [0, 1, 2, 3].map(|n: i64| (Partition::try_from(n).unwrap(), 1));
        assert!(turns.ask(a) && turns.ask(b));
        assert!(!turns.ask(c) && !turns.ask(d));
        turns.done(c);
        turns.done(a);
        assert!(turns.ask(d));
        assert!(!turns.is_idle());
    }
}
