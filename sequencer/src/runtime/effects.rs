//! What shells ask for, done over Kafka.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
    mpsc,
};

use event_log::{
    AppendRecord, DeliveryFailure, KafkaConfig, KafkaFault, LogProducer, OnDelivery,
    ProducerSettings,
};
use schemas::{
    Partition,
    dead_letter::{self, Letter, Origin, Original},
    event::Event,
    proto::SequencerSnapshot,
    topics::Topic,
};

use super::{
    snapshot_turns::SnapshotTurns,
    snapshot_writer::{Job, SnapshotWriter},
};
use crate::shell::{DeadLetter, Failed, Io, SnapshotTicket, Ticket};

/// Tells one start of a partition from the next: reports of an earlier shell must not reach a later one.
pub(super) type Run = u64;

/// Which effect a report is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Append(Ticket),
    DeadLetter(Ticket),
    /// One of `of` pieces of a snapshot.
    SnapshotChunk {
        ticket: SnapshotTicket,
        of: usize,
    },
}

/// What became of one record.
pub(super) struct Report {
    pub(super) partition: Partition,
    pub(super) run: Run,
    pub(super) effect: Effect,
    /// Its offset, where that is known.
    pub(super) outcome: Result<Option<i64>, Failed>,
}

/// Carries a report from the producer's thread to the worker's.
pub(super) struct Delivery {
    partition: Partition,
    run: Run,
    effect: Effect,
    reports: mpsc::Sender<Report>,
    /// Of events: set when one failed, for nothing may be queued behind it (PROTOCOL S6).
    event_failed: Option<Arc<AtomicBool>>,
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
            event_failed: None,
        }
    }
}

impl OnDelivery for Delivery {
    fn delivered(self, outcome: event_log::Delivery) {
        if let (Some(event_failed), Err(_)) = (&self.event_failed, &outcome) {
            event_failed.store(true, Ordering::SeqCst);
        }
        // A worker that is gone wants no reports.
        let _ = self.reports.send(Report {
            partition: self.partition,
            run: self.run,
            effect: self.effect,
            outcome: outcome.map_err(|failure| Failed(failure.to_string())),
        });
    }
}

/// What may wait in the producer of events, and in that of dead letters, bytes.
const QUEUE_BYTES: usize = 256 << 20;

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
    events: LogProducer<Delivery>,
    /// Each kind queues apart, so that a large snapshot cannot fill the queue of what must not fail.
    dead_letters: LogProducer<Delivery>,
    snapshots: SnapshotWriter,
    snapshot_turns: SnapshotTurns,
    event_failed: Arc<AtomicBool>,
    events_topic: String,
    inbound_topic: String,
    dead_letters_topic: String,
    reports: mpsc::Sender<Report>,
}

impl Effects {
    pub(super) fn new(
        kafka: &KafkaConfig,
        linger_ms: u32,
        reports: mpsc::Sender<Report>,
    ) -> Result<Self, KafkaFault> {
        let events = ProducerSettings {
            linger_ms,
            max_message_bytes: 1_000_000,
            gapless: true,
            ..never_given_up(QUEUE_BYTES)
        };
        Ok(Self {
            events: LogProducer::new(kafka, &events)?,
            dead_letters: LogProducer::new(kafka, &never_given_up(QUEUE_BYTES))?,
            snapshots: SnapshotWriter::start(kafka, reports.clone())?,
            snapshot_turns: SnapshotTurns::default(),
            event_failed: Arc::default(),
            events_topic: kafka.topic(Topic::Events),
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

impl ShellIo<'_> {
    fn delivery(&self, effect: Effect) -> Delivery {
        let reports = self.effects.reports.clone();
        Delivery::new(self.partition, self.run, effect, reports)
    }

    fn send(&self, producer: &LogProducer<Delivery>, record: AppendRecord<'_>, handle: Delivery) {
        if let Err(full) = producer.append(record, handle) {
            not_queued(full.0, "the producer's queue is full");
        }
    }
}

pub(super) fn not_queued(handle: Delivery, why: &str) {
    handle.delivered(Err(DeliveryFailure::Unknown(why.to_owned())));
}

impl Io for ShellIo<'_> {
    fn may_snapshot(&mut self) -> bool {
        let shell = (self.partition, self.run);
        self.effects.snapshot_turns.ask(shell)
    }

    fn append(&mut self, ticket: Ticket, event: Event) {
        let delivery = Delivery {
            event_failed: Some(Arc::clone(&self.effects.event_failed)),
            ..self.delivery(Effect::Append(ticket))
        };
        if self.effects.event_failed.load(Ordering::SeqCst) {
            return not_queued(delivery, "an event before it failed");
        }
        let key = event
            .conversation()
            .map(|id| id.to_string())
            .unwrap_or_default();
        let timestamp = Some(event.ts);
        let value = event.encode();
        let record = AppendRecord {
            topic: &self.effects.events_topic,
            partition: self.partition,
            key: key.as_bytes(),
            value: Some(&value),
            timestamp,
            headers: &[],
        };
        self.send(&self.effects.events, record, delivery);
    }

    fn dead_letter(&mut self, ticket: Ticket, letter: DeadLetter) {
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
        let original = Original {
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: &headers,
        };
        let letter = Letter::new(&origin, refusal.reason, &refusal.detail, &original);
        tracing::warn!(
            partition = %self.partition, offset = record.offset, reason = %refusal.reason, "dead letter"
        );
        metrics::counter!("dead_letters_total", "reason" => refusal.reason.as_str()).increment(1);
        let append = AppendRecord {
            topic: &self.effects.dead_letters_topic,
            partition: self.partition,
            key: &letter.key,
            value: letter.value.as_deref(),
            timestamp: None,
            headers: &letter.headers,
        };
        self.send(
            &self.effects.dead_letters,
            append,
            self.delivery(Effect::DeadLetter(ticket)),
        );
    }

    fn store_snapshot(&mut self, ticket: SnapshotTicket, snapshot: SequencerSnapshot) {
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
