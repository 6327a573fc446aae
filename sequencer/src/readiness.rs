//! Whether the sequencer is ready, and what stops which partition.

use std::{sync::Arc, time::Duration};

use event_log::{HaltedPartitions, LogReader};
use schemas::{PartitionMap, topics::Topic};
use service_runtime::ReadinessCheck;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use crate::runtime::Status;

const STALL_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// After this long without an answer the brokers count as unavailable.
const BROKER_TIMEOUT: Duration = Duration::from_secs(5);

/// A partition with unread records counts as stalled when it has not moved for this long.
const STALLED_AFTER: Duration = Duration::from_secs(10);

pub(crate) struct Readiness {
    pub(crate) status: watch::Receiver<Status>,
    pub(crate) halted: HaltedPartitions,
    pub(crate) log: Arc<LogReader>,
    pub(crate) check: ReadinessCheck,
}

impl Readiness {
    /// Updates the check until the worker ends. The sequencer is ready once the group has assigned its share, all of it has started, and nothing is
    /// halted or stalled.
    pub(crate) async fn run(mut self) {
        let mut ticks = tokio::time::interval(STALL_CHECK_INTERVAL);
        let mut stalls = Stalls::default();
        let mut stalled = None;
        loop {
            tokio::select! {
                changed = self.status.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                _ = ticks.tick() => stalled = self.check_stalls(&mut stalls).await,
            }
            let of_others = self.starting().or(stalled.clone());
            match self.halted.reason_with(of_others) {
                Some(why) => self.check.not_ready(why),
                None => self.check.ready(),
            }
        }
    }

    fn starting(&mut self) -> Option<String> {
        let status = self.status.borrow_and_update();
        let starting = status.starting.len();
        if !status.joined {
            Some("joining the consumer group".to_owned())
        } else if starting > 0 {
            Some(format!("{starting} partitions are starting"))
        } else {
            None
        }
    }

    /// Why partitions do not move, as far as the log shows.
    async fn check_stalls(&self, stalls: &mut Stalls) -> Option<String> {
        match timeout(BROKER_TIMEOUT, self.log.ends(Topic::Inbound)).await {
            Ok(Ok(ends)) => stalls.check(&self.status.borrow().settled, &ends, Instant::now()),
            Ok(Err(fault)) => Some(fault.to_string()),
            Err(_elapsed) => Some("Kafka does not answer".to_owned()),
        }
    }
}

/// Since when each partition with unread records has not moved.
#[derive(Default)]
struct Stalls(PartitionMap<(i64, Instant)>);

impl Stalls {
    /// Names a partition that has settled nothing for too long.
    fn check(
        &mut self,
        settled: &PartitionMap<i64>,
        ends: &PartitionMap<i64>,
        now: Instant,
    ) -> Option<String> {
        let end = |partition| ends.get(partition).copied().unwrap_or_default();
        let behind = settled
            .iter()
            .filter(|(partition, at)| **at < end(*partition));
        let behind = behind.map(|(partition, at)| match self.0.get(partition) {
            Some(&(was, since)) if was == *at => (partition, (*at, since)),
            _ => (partition, (*at, now)),
        });
        self.0 = behind.collect();
        let mut stalled = self
            .0
            .iter()
            .filter(|(_, (_, since))| now - *since >= STALLED_AFTER);
        let (partition, (at, since)) = stalled.next()?;
        let others = match stalled.count() {
            0 => String::new(),
            others => format!(" (and {others} others stand, too)"),
        };
        Some(format!(
            "partition {partition} has stood at offset {at} of chat.inbound for {} s, and the log ends at {}{others}",
            (now - *since).as_secs(),
            end(partition)
        ))
    }
}

#[cfg(test)]
mod tests {
    use schemas::Partition;

    use super::*;

    #[test]
    fn a_partition_that_does_not_move_while_its_log_has_more_is_named() {
        let began = Instant::now();
        let mut stalls = Stalls::default();
        let [one, two]: [Partition; 2] = [1_i64, 2].map(|n| n.try_into().unwrap());
        let mut look = |after_s: u64, settled: [i64; 2], ends: [i64; 2]| {
            let map = |of: [i64; 2]| PartitionMap::from([(one, of[0]), (two, of[1])]);
            let now = began + Duration::from_secs(after_s);
            stalls.check(&map(settled), &map(ends), now)
        };
        assert_eq!(look(0, [5, 7], [5, 7]), None, "all is settled");
        assert_eq!(look(20, [5, 7], [6, 9]), None, "it came since");
        assert_eq!(look(28, [5, 8], [6, 9]), None);
        let why = look(31, [5, 9], [6, 9]).unwrap();
        let stands =
            "partition 1 has stood at offset 5 of chat.inbound for 11 s, and the log ends at 6";
        assert_eq!(why, stands);
        assert_eq!(look(33, [6, 9], [7, 9]), None, "it moved");
    }
}
