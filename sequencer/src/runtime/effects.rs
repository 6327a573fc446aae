//! What shells ask for, done over Kafka.

use std::sync::mpsc;

use event_log::{
    AppendRecord, DeliveryFailure, EventLogError, KafkaConfig, LogProducer, OnDelivery,
    ProducerSettings,
};
use schemas::{
    Partition,
    dead_letter::{self, DeadLetterRecord, Origin, OriginalRecord},
    event::Event,
    topics::Topic,
};

use super::{
    event_writer::{Appended, EventWriter},
    snapshot_turns::SnapshotTurns,
    snapshot_writer::{Job, SnapshotWriter},
};
use crate::{
    core::snapshot::Snapshot,
    shell::{DeadLetter, OutputId, ShellEffects, SnapshotWriteId, WriteFailed},
};

/// Tells one start of a partition from the next: reports of an earlier shell must not reach a later one.
pub(super) type Run = u64;

/// Which effect a report is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    DeadLetter(OutputId),
    /// One of `of` pieces of a snapshot.
    SnapshotChunk {
        ticket: SnapshotWriteId,
        of: usize,
    },
}

/// What became of one record that is no event.
pub(super) struct Report {
    pub(super) partition: Partition,
    pub(super) run: Run,
    pub(super) effect: Effect,
    /// Its offset, where that is known.
    pub(super) outcome: Result<Option<i64>, WriteFailed>,
}

/// Carries a report from the producer's thread to the worker's.
pub(super) struct Delivery {
    partition: Partition,
    run: Run,
    effect: Effect,
    reports: mpsc::Sender<Report>,
}

impl Delivery {
    pub(super) fn new(
        partition: Partition,
        run: Run,
        effect: Effect,
        reports: mpsc::Sender<Report>,
    ) -> Self {
        Self {
            partition,
            run,
            effect,
            reports,
        }
    }
}

impl OnDelivery for Delivery {
    fn delivered(self, outcome: event_log::Delivery) {
        // A worker that is gone wants no reports.
        let _ = self.reports.send(Report {
            partition: self.partition,
            run: self.run,
            effect: self.effect,
            outcome: outcome.map_err(|failure| WriteFailed(failure.to_string())),
        });
    }
}

/// What may wait in the producer of events, and in that of dead letters, bytes.
pub(super) const QUEUE_BYTES: usize = 256 << 20;

/// A producer whose records are never given up: what is behind one must not overtake it (PROTOCOL S6, S7).
pub(super) fn never_given_up(queue_bytes: usize) -> ProducerSettings {
    ProducerSettings {
        linger_ms: 0,
        message_timeout_ms: 0,
        queue_bytes,
        // A dead letter is its original record with a few headers more, or the beginning of a larger one.
        max_message_bytes: 2_000_000,
        gapless: false,
    }
}

/// The producers of a sequencer process.
pub(super) struct Effects {
    events: EventWriter,
    /// Each kind queues apart, so that a large snapshot cannot fill the queue of what must not fail.
    dead_letters: LogProducer<Delivery>,
    snapshots: SnapshotWriter,
    snapshot_turns: SnapshotTurns,
    inbound_topic: String,
    dead_letters_topic: String,
    reports: mpsc::Sender<Report>,
}

impl Effects {
    pub(super) fn new(
        kafka: &KafkaConfig,
        linger_ms: u32,
        appended: mpsc::Sender<Appended>,
        reports: mpsc::Sender<Report>,
    ) -> Result<Self, EventLogError> {
        Ok(Self {
            events: EventWriter::new(kafka, linger_ms, appended)?,
            dead_letters: LogProducer::new(kafka, &never_given_up(QUEUE_BYTES))?,
            snapshots: SnapshotWriter::start(kafka, reports.clone())?,
            snapshot_turns: SnapshotTurns::default(),
            inbound_topic: kafka.topic(Topic::Inbound),
            dead_letters_topic: kafka.topic(Topic::DeadLetters),
            reports,
        })
    }

    /// A snapshot of this shell is stored or lost, or the shell is gone.
    pub(super) fn snapshot_done(&mut self, partition: Partition, run: Run) {
        self.snapshot_turns.done((partition, run));
    }

    /// Whether a snapshot is on its way.
    pub(super) fn has_snapshots_under_way(&self) -> bool {
        !self.snapshot_turns.is_idle()
    }

    /// The effects of one shell.
    pub(super) fn of(&mut self, partition: Partition, run: Run) -> ShellIo<'_> {
        ShellIo {
            effects: self,
            partition,
            run,
        }
    }
}

/// The effects of one shell of one partition.
pub(super) struct ShellIo<'a> {
    effects: &'a mut Effects,
    partition: Partition,
    run: Run,
}

pub(super) fn not_queued(handle: impl OnDelivery, why: &str) {
    handle.delivered(Err(DeliveryFailure::Unknown(why.to_owned())));
}

impl ShellEffects for ShellIo<'_> {
    fn may_snapshot(&mut self) -> bool {
        let shell = (self.partition, self.run);
        self.effects.snapshot_turns.ask(shell)
    }

    fn append(&mut self, ticket: OutputId, event: Event) {
        self.effects
            .events
            .append(self.partition, self.run, ticket, event);
    }

    fn dead_letter(&mut self, ticket: OutputId, letter: DeadLetter) {
        let DeadLetter { record, refusal } = letter;
        let origin = Origin {
            topic: &self.effects.inbound_topic,
            partition: self.partition,
            offset: record.offset,
            stage: "sequencer",
        };
        let headers: Vec<dead_letter::Header> = record
            .headers
            .into_iter()
            .map(|(name, value)| (name, value.map(|value| value.to_vec())))
            .collect();
        let original = OriginalRecord {
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: &headers,
        };
        let letter = DeadLetterRecord::new(&origin, refusal.reason, &refusal.detail, &original);
        tracing::warn!(
            partition = %self.partition, offset = record.offset, reason = %refusal.reason, "dead letter"
        );
        metrics::counter!("tidemark_dead_letters_total", "reason" => refusal.reason.as_str())
            .increment(1);
        let append = AppendRecord {
            topic: &self.effects.dead_letters_topic,
            partition: self.partition,
            key: &letter.key,
            value: letter.value.as_deref(),
            timestamp: None,
            headers: &letter.headers,
        };
        let (effect, reports) = (Effect::DeadLetter(ticket), self.effects.reports.clone());
        let delivery = Delivery::new(self.partition, self.run, effect, reports);
        if let Err(full) = self.effects.dead_letters.append(append, delivery) {
            not_queued(full.0, "the producer's queue is full");
        }
    }

    fn store_snapshot(&mut self, ticket: SnapshotWriteId, snapshot: Snapshot) {
        self.effects.snapshots.store(Job {
            partition: self.partition,
            run: self.run,
            ticket,
            snapshot,
        });
    }
}

#[cfg(test)]
mod tests {
    use schemas::PARTITIONS;

    use super::*;
    use crate::SequencerConfig;

    #[test]
    fn what_all_partitions_may_have_in_flight_fits_into_the_queues() {
        /// The largest record that a topic takes, and what stays with it: its headers, librdkafka's own.
        const RECORD: usize = (1 << 20) + (64 << 10);
        let config = SequencerConfig::default().shell();
        let letters = config.max_dead_letters_in_flight * RECORD;
        assert!(PARTITIONS as usize * letters <= QUEUE_BYTES);
        // The record that reaches the bound is in flight too.
        let events = config.max_in_flight_bytes + RECORD;
        assert!(PARTITIONS as usize * events <= QUEUE_BYTES);
    }
}
