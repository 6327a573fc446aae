use std::{sync::Arc, time::Duration};

use metrics::Gauge;
use parking_lot::Mutex;
use schemas::{NextOffset, Partition, PartitionMap};

use crate::KafkaConfig;

/// How many halted partitions are named at once.
const NAMED: usize = 4;

/// Partitions that a member of a group cannot continue, while it continues the others: one record must not stop them all. Clones share the
/// partitions.
#[derive(Clone)]
pub struct HaltedPartitions {
    halts: Arc<Mutex<PartitionMap<Halt>>>,
    gauge: Gauge,
}

struct Halt {
    blocked_at: Option<NextOffset>,
    why: String,
}

impl HaltedPartitions {
    /// After this long, the component that halted a partition checks whether the cause is gone.
    pub const RETRY: Duration = Duration::from_secs(15);

    /// No halted partitions yet, in the gauge of this group.
    #[must_use]
    pub fn new(config: &KafkaConfig, group: &str) -> Self {
        const HALTED: &str = "tidemark_halted_partitions";
        metrics::describe_gauge! { HALTED, "Partitions that wait for an operator; /readyz names the command" }
        let gauge = metrics::gauge!(HALTED, "consumergroup" => config.group(group));
        gauge.set(0.0);
        let halts = Arc::default();
        Self { halts, gauge }
    }

    /// Halts a partition. `why` says what has to be done. With `blocked_at`, it stays halted until the record at that offset is passed.
    pub fn halt(&self, partition: Partition, blocked_at: Option<NextOffset>, why: String) {
        let mut halts = self.halts.lock();
        let was = halts.insert(partition, Halt { blocked_at, why });
        let why = &halts[partition].why;
        if was.is_none_or(|was| was.why != *why) {
            tracing::error!(%partition, why, "halted; other partitions go on");
        }
        self.count(&halts);
    }

    /// The partition is read from `next` on: it is no longer halted, unless the record that blocks it is yet to come.
    pub fn resumed(&self, partition: Partition, next: NextOffset) {
        let mut halts = self.halts.lock();
        let passed = |halt: &Halt| halt.blocked_at.is_none_or(|at| at < next);
        if halts.get(partition).is_some_and(passed) {
            halts.remove(partition);
            tracing::info!(%partition, "goes on again");
            self.count(&halts);
        }
    }

    /// The partition is no longer this member's.
    pub fn release(&self, partition: Partition) {
        let mut halts = self.halts.lock();
        halts.remove(partition);
        self.count(&halts);
    }

    /// [`Self::reason`], followed by the reason why other partitions make no progress, if any.
    #[must_use]
    pub fn reason_with(&self, of_others: Option<String>) -> Option<String> {
        let reasons: Vec<String> = self.reason().into_iter().chain(of_others).collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    /// Which partitions are halted and why, if any is.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        let halts = self.halts.lock();
        let named: Vec<String> = halts
            .iter()
            .take(NAMED)
            .map(|(partition, halt)| format!("partition {partition} is halted: {}", halt.why))
            .collect();
        let more = halts.len().saturating_sub(NAMED);
        let more = (more > 0).then(|| format!("and {more} more are halted"));
        let all: Vec<String> = named.into_iter().chain(more).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    #[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
    fn count(&self, halts: &PartitionMap<Halt>) {
        self.gauge.set(halts.len() as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_stays_halted_until_the_record_is_passed() {
        let halted = HaltedPartitions::new(&KafkaConfig::default(), "test");
        assert_eq!(halted.reason(), None);
        let [three, four] = [3_i64, 4].map(|partition| partition.try_into().unwrap());
        halted.halt(three, Some(NextOffset::new(7)), "unknown rules".to_owned());
        halted.halt(four, None, "truncated".to_owned());
        let both = "partition 3 is halted: unknown rules; partition 4 is halted: truncated";
        assert_eq!(halted.reason().as_deref(), Some(both));
        for partition in [three, four] {
            halted.resumed(partition, NextOffset::new(7));
        }
        let one = "partition 3 is halted: unknown rules";
        assert_eq!(halted.reason().as_deref(), Some(one));
        halted.resumed(three, NextOffset::new(8));
        assert_eq!(halted.reason(), None);
    }

    #[test]
    fn a_few_of_many_are_named() {
        let halted = HaltedPartitions::new(&KafkaConfig::default(), "test");
        for partition in Partition::all() {
            halted.halt(partition, None, "why".to_owned());
        }
        let reason = halted.reason().unwrap();
        assert!(
            reason.ends_with("partition 3 is halted: why; and 60 more are halted"),
            "{reason}"
        );
    }
}
