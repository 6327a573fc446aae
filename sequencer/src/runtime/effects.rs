//! The effects that shells request, carried out over Kafka.

use std::{sync::mpsc, time::Instant};

use event_log::{AppendRecord, AssignmentGeneration, EventLogError, KafkaConfig, LogProducer};
use schemas::{
    InboundPosition, Partition,
    dead_letter::{self, DeadLetterRecord, Origin, OriginalRecord},
    event::Event,
    topics::Topic,
};

use super::{
    event_writer::{Appended, EventWriter},
    producers::{Delivery, Effect, QUEUE_BYTES, Report, not_queued, without_timeout},
    snapshot_queue::SnapshotQueue,
    snapshot_writer::{Job, SnapshotWriter},
};
use crate::{
    core::snapshot::Snapshot,
    shell::{DeadLetter, OutputId, ShellEffects, SnapshotWriteId},
};

/// The producers of a sequencer process.
pub(super) struct Effects {
    events: EventWriter,
    /// Each kind has its own queue, so that a large snapshot cannot fill the queue of records that must not fail.
    dead_letters: LogProducer<Delivery>,
    snapshots: SnapshotWriter,
    snapshot_queue: SnapshotQueue,
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
            dead_letters: LogProducer::new(kafka, &without_timeout(QUEUE_BYTES))?,
            snapshots: SnapshotWriter::start(kafka, reports.clone())?,
            snapshot_queue: SnapshotQueue::default(),
            inbound_topic: kafka.topic(Topic::Inbound),
            dead_letters_topic: kafka.topic(Topic::DeadLetters),
            reports,
        })
    }

    /// Call this when a snapshot of this shell is stored or lost, or the shell is gone.
    pub(super) fn snapshot_done(&mut self, partition: Partition, generation: AssignmentGeneration) {
        self.snapshot_queue.done((partition, generation));
    }

    pub(super) fn publish(&self) {
        let longest = self.snapshot_queue.longest(Instant::now());
        metrics::gauge!("tidemark_sequencer_snapshot_in_flight_seconds").set(longest.as_secs_f64());
    }

    /// Whether a snapshot is being stored.
    pub(super) fn has_snapshots_in_flight(&self) -> bool {
        !self.snapshot_queue.is_idle()
    }

    /// The effects of one shell.
    pub(super) fn of(
        &mut self,
        partition: Partition,
        generation: AssignmentGeneration,
    ) -> ShellIo<'_> {
        ShellIo {
            effects: self,
            partition,
            generation,
        }
    }
}

/// The effects of one shell of one partition.
pub(super) struct ShellIo<'a> {
    effects: &'a mut Effects,
    partition: Partition,
    generation: AssignmentGeneration,
}

impl ShellEffects for ShellIo<'_> {
    fn may_snapshot(&mut self) -> bool {
        let shell = (self.partition, self.generation);
        self.effects.snapshot_queue.try_start(shell, Instant::now())
    }

    fn append(&mut self, ticket: OutputId, event: Event) {
        self.effects
            .events
            .append(self.partition, self.generation, ticket, event);
    }

    fn dead_letter(&mut self, ticket: OutputId, letter: DeadLetter) {
        let DeadLetter { record, refusal } = letter;
        let position = InboundPosition {
            partition: self.partition,
            offset: record.offset,
        };
        let origin = Origin::of_inbound(&self.effects.inbound_topic, position);
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
        let delivery = Delivery::new(self.partition, self.generation, effect, reports);
        if let Err(full) = self.effects.dead_letters.append(append, delivery) {
            not_queued(full.0, "the producer's queue is full");
        }
    }

    fn store_snapshot(&mut self, ticket: SnapshotWriteId, snapshot: Snapshot) {
        self.effects.snapshots.store(Job {
            partition: self.partition,
            generation: self.generation,
            ticket,
            snapshot,
        });
    }
}
