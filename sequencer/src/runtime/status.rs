//! The sequencer's status.

use std::collections::BTreeMap;

use schemas::{Partition, PartitionMap};
use serde::Serialize;

use crate::shell::Counts;

/// The state of a sequencer process; the body of `GET /status`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Status {
    /// Whether its consumer group has assigned partitions to it.
    pub joined: bool,
    /// The partitions it works on, with the inbound offset to be sequenced next.
    pub partitions: PartitionMap<i64>,
    /// For each partition the offset below which every inbound record has its output acknowledged.
    pub settled: PartitionMap<i64>,
    /// The partitions whose state is being loaded.
    pub starting: Vec<Partition>,
    /// The partitions that wait for an operator; `/readyz` says why.
    pub halted: Vec<Partition>,
    /// Counts since the start of the process, by outcome.
    pub done: BTreeMap<&'static str, u64>,
}

/// The counts of all shells, including those that are gone.
#[derive(Default)]
pub(super) struct Totals(BTreeMap<&'static str, u64>);

impl Totals {
    /// Adds what a shell has done since `before`.
    pub(super) fn add(&mut self, before: &Counts, now: &Counts) {
        for ((name, was), (_, is)) in before.by_outcome().zip(now.by_outcome()) {
            *self.0.entry(name).or_default() += is - was;
        }
    }

    pub(super) fn publish(&self) -> BTreeMap<&'static str, u64> {
        for (name, count) in &self.0 {
            metrics::counter!("tidemark_sequencer_records_total", "outcome" => *name)
                .absolute(*count);
        }
        self.0.clone()
    }
}
