//! What the producers share: their settings, and the reports of appends.

use std::sync::mpsc;

use event_log::{AssignmentGeneration, DeliveryFailure, OnDelivery, ProducerSettings};
use schemas::Partition;

use crate::shell::{OutputId, SnapshotWriteId, WriteFailed};

/// The queue size of the producer of events, and of that of dead letters, bytes.
pub(super) const QUEUE_BYTES: usize = 256 << 20;

/// Settings of a producer whose records never time out: later records must not overtake an earlier one (PROTOCOL S6, S7).
pub(super) fn without_timeout(queue_bytes: usize) -> ProducerSettings {
    ProducerSettings {
        linger_ms: 0,
        message_timeout_ms: 0,
        queue_bytes,
        // A dead letter is its original record with a few headers more, or the beginning of a larger one.
        max_message_bytes: 2_000_000,
        gapless: false,
    }
}

/// The effect that a report is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    DeadLetter(OutputId),
    /// One of `of` chunks of a snapshot.
    SnapshotChunk {
        ticket: SnapshotWriteId,
        of: usize,
    },
}

/// The outcome of appending one record other than an event.
pub(super) struct Report {
    pub(super) partition: Partition,
    pub(super) generation: AssignmentGeneration,
    pub(super) effect: Effect,
    /// The record's offset, if known.
    pub(super) outcome: Result<Option<i64>, WriteFailed>,
}

/// Carries a report from the producer's thread to the worker's.
pub(super) struct Delivery {
    partition: Partition,
    generation: AssignmentGeneration,
    effect: Effect,
    reports: mpsc::Sender<Report>,
}

impl Delivery {
    pub(super) fn new(
        partition: Partition,
        generation: AssignmentGeneration,
        effect: Effect,
        reports: mpsc::Sender<Report>,
    ) -> Self {
        Self {
            partition,
            generation,
            effect,
            reports,
        }
    }
}

impl OnDelivery for Delivery {
    fn delivered(self, outcome: event_log::Delivery) {
        // The receiver may be gone if the worker has ended.
        let _ = self.reports.send(Report {
            partition: self.partition,
            generation: self.generation,
            effect: self.effect,
            outcome: outcome.map_err(|failure| WriteFailed(failure.to_string())),
        });
    }
}

pub(super) fn not_queued(handle: impl OnDelivery, why: &str) {
    handle.delivered(Err(DeliveryFailure::Unknown(why.to_owned())));
}

#[cfg(test)]
mod tests {
    use schemas::PARTITIONS;

    use super::*;
    use crate::SequencerConfig;

    #[test]
    fn the_records_in_flight_of_all_partitions_fit_into_the_queues() {
        /// The largest record that a topic takes, and what stays with it: its headers and librdkafka's overhead.
        const RECORD: usize = (1 << 20) + (64 << 10);
        let config = SequencerConfig::default().shell();
        // The bound for events, and for dead letters; the record that reaches it is in flight too.
        let of_a_partition = config.max_in_flight_bytes + RECORD;
        assert!(PARTITIONS as usize * of_a_partition <= QUEUE_BYTES);
    }
}
