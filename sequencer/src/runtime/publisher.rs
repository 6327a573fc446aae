//! Tells of the worker: its status as soon as it changes, its counts every now and then.

use std::{collections::BTreeMap, mem};

use schemas::Partition;
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

    /// The group has given this process its share.
    pub(super) fn joined(&mut self) {
        self.joined = true;
        self.changed = true;
    }

    /// A partition has come, gone or moved on.
    pub(super) fn phase_changed(&mut self) {
        self.changed = true;
    }

    /// A shell is done with: its counts stay.
    pub(super) fn retired(&mut self, owned: &Owned) {
        self.totals.add(&owned.counted, owned.shell.counts());
    }

    /// Publishes the phases if one has changed. What belongs together is never seen apart: who has joined is not
    /// without what it is about to start.
    pub(super) fn follow(&mut self, partitions: &BTreeMap<Partition, Phase>) {
        if mem::take(&mut self.changed) {
            self.status
                .send_modify(|status| self_describe(status, self.joined, partitions));
        }
    }

    /// Publishes everything.
    pub(super) fn report(&mut self, partitions: &mut BTreeMap<Partition, Phase>) {
        for owned in partitions.values_mut().filter_map(Phase::owned_mut) {
            let before = mem::replace(&mut owned.counted, *owned.shell.counts());
            self.totals.add(&before, &owned.counted);
        }
        let done = self.totals.publish();
        self.changed = false;
        self.status.send_modify(|status| {
            status.done = done;
            self_describe(status, self.joined, partitions);
        });
    }
}

fn self_describe(status: &mut Status, joined: bool, partitions: &BTreeMap<Partition, Phase>) {
    status.joined = joined;
    status.partitions = partitions
        .iter()
        .filter_map(|(partition, phase)| Some((*partition, phase.owned()?.shell.next_inbound())))
        .collect();
    status.starting = partitions
        .iter()
        .filter(|(_, phase)| phase.owned().is_none())
        .map(|(partition, _)| *partition)
        .collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_joined_shows_at_once_what_it_is_about_to_start() {
        let (sender, status) = watch::channel(Status::default());
        let mut publisher = Publisher::new(sender);
        let partition: Partition = 5.try_into().unwrap();
        let starting = Phase::Starting {
            run: 1,
            retry_at: None,
        };
        let partitions = BTreeMap::from([(partition, starting)]);
        publisher.joined();
        assert!(!status.borrow().joined, "not without its partitions");
        publisher.follow(&partitions);
        let seen = status.borrow();
        assert!(seen.joined);
        assert_eq!(seen.starting, [partition]);
    }
}
