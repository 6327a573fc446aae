//! Publishes the worker's status as soon as it changes, and its counts at intervals.

use std::mem;

use schemas::{Partition, PartitionMap};
use tokio::sync::watch;

use super::{
    phase::{Owned, Phase},
    status::{Status, Totals},
};

pub(super) struct Publisher {
    status: watch::Sender<Status>,
    totals: Totals,
    joined: bool,
    changed: bool,
}

impl Publisher {
    pub(super) fn new(status: watch::Sender<Status>) -> Self {
        Self {
            status,
            totals: Totals::default(),
            joined: false,
            changed: false,
        }
    }

    /// The group has assigned partitions.
    pub(super) fn joined(&mut self) {
        self.joined = true;
        self.changed = true;
    }

    /// A partition was added or removed, or its phase has changed.
    pub(super) fn phase_changed(&mut self) {
        self.changed = true;
    }

    /// Call this when a shell is gone; its counts stay in the totals.
    pub(super) fn retired(&mut self, owned: &Owned) {
        self.totals.add(&owned.counted, owned.shell.counts());
    }

    /// Publishes the phases if one has changed. The status never shows a member that has joined without the partitions that it is about to start.
    pub(super) fn publish_changes(&mut self, partitions: &PartitionMap<Phase>) {
        if mem::take(&mut self.changed) {
            self.status
                .send_modify(|status| describe(status, self.joined, partitions));
        }
    }

    /// Publishes everything.
    pub(super) fn report(&mut self, partitions: &mut PartitionMap<Phase>) {
        for owned in partitions.values_mut().filter_map(Phase::owned_mut) {
            let before = mem::replace(&mut owned.counted, *owned.shell.counts());
            self.totals.add(&before, &owned.counted);
        }
        let done = self.totals.publish();
        self.changed = false;
        self.status.send_modify(|status| {
            status.done = done;
            describe(status, self.joined, partitions);
        });
    }
}

fn describe(status: &mut Status, joined: bool, partitions: &PartitionMap<Phase>) {
    status.joined = joined;
    let shells = || {
        partitions
            .iter()
            .filter_map(|(partition, phase)| Some((partition, &phase.owned()?.shell)))
    };
    status.partitions = shells()
        .map(|(partition, shell)| (partition, shell.next_inbound()))
        .collect();
    status.settled = shells()
        .map(|(partition, shell)| (partition, shell.commit_offset()))
        .collect();
    let which = |is_so: &dyn Fn(Partition, &Phase) -> bool| {
        let stopped = partitions
            .iter()
            .filter(|(_, phase)| phase.owned().is_none());
        let those = stopped.filter(|(partition, phase)| is_so(*partition, phase));
        those.map(|(partition, _)| partition).collect()
    };
    // A halted partition that is loaded again counts as halted until it has started.
    let halted: Vec<Partition> = which(&|partition, phase| {
        matches!(phase, Phase::Halted { .. }) || status.halted.contains(&partition)
    });
    status.starting = which(&|partition, _| !halted.contains(&partition));
    status.halted = halted;
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use event_log::AssignmentGeneration;

    use super::*;

    #[test]
    fn a_halted_partition_that_is_loaded_again_stays_halted() {
        let (sender, status) = watch::channel(Status::default());
        let mut publisher = Publisher::new(sender);
        let partition: Partition = 5.try_into().unwrap();
        let generation = AssignmentGeneration::default();
        let halted = Phase::Halted {
            generation,
            retry_at: Some(Instant::now()),
        };
        for phase in [halted, Phase::Loading(generation)] {
            publisher.phase_changed();
            publisher.publish_changes(&PartitionMap::from([(partition, phase)]));
            assert_eq!(status.borrow().halted, [partition]);
            assert!(status.borrow().starting.is_empty());
        }
        publisher.phase_changed();
        publisher.publish_changes(&PartitionMap::new());
        assert!(status.borrow().halted.is_empty());
    }

    #[test]
    fn joining_and_the_starting_partitions_are_published_together() {
        let (sender, status) = watch::channel(Status::default());
        let mut publisher = Publisher::new(sender);
        let partition: Partition = 5.try_into().unwrap();
        let starting = Phase::Loading(AssignmentGeneration::default());
        let partitions = PartitionMap::from([(partition, starting)]);
        publisher.joined();
        assert!(!status.borrow().joined, "not without its partitions");
        publisher.publish_changes(&partitions);
        let seen = status.borrow();
        assert!(seen.joined);
        assert_eq!(seen.starting, [partition]);
    }
}
