//! What the sequencer tells of itself.

use std::collections::BTreeMap;

use schemas::Partition;
use serde::Serialize;

use crate::shell::Counts;

/// What a sequencer process is at; the body of `GET /status`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Status {
    /// Whether its consumer group has given it its share.
    pub joined: bool,
    /// The partitions it works on, with the inbound offset to be stepped next.
    pub partitions: BTreeMap<Partition, i64>,
    /// The partitions it is about to start.
    pub starting: Vec<Partition>,
    /// What it has done since the process began.
    pub done: BTreeMap<&'static str, u64>,
}

/// The counts of all shells, those that are gone too.
#[derive(Default)]
pub(super) struct Totals(BTreeMap<&'static str, u64>);

impl Totals {
    /// Adds what a shell has done since `before`.
    pub(super) fn add(&mut self, before: &Counts, now: &Counts) {
        for ((name, was), (_, is)) in named(before).into_iter().zip(named(now)) {
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

fn named(counts: &Counts) -> [(&'static str, u64); 7] {
    [
        ("message", counts.messages),
        ("read_position", counts.read_positions),
        ("control", counts.controls),
        ("progress", counts.progress),
        ("repeat", counts.repeats),
        ("idle_read_ack", counts.idle_read_acks),
        ("dead_letter", counts.dead_letters),
    ]
}
