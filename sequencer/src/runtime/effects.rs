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
use prost::Message as _;
use schemas::{
    Partition,
    dead_letter::{self, Origin},
    event::Event,
    proto::SequencerSnapshot,
    topics::Topic,
};

use crate::shell::{CHUNK_BYTES, DeadLetter, Failed, Io, Ticket, split};

/// Tells one start of a partition from the next: reports of an earlier shell must not reach a later one.
pub(super) type Run = u64;

/// Which effect a report is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Append,
    DeadLetter,
    /// One of `of` pieces of a snapshot.
    SnapshotChunk {
        of: usize,
    },
}

/// What became of one record.
pub(super) struct Report {
    pub(super) partition: Partition,
    pub(super) run: Run,
    pub(super) ticket: Ticket,
    pub(super) effect: Effect,
    pub(super) outcome: Result<i64, Failed>,
}

/// Carries a report from the producer's thread to the worker's.
struct Delivery {
    partition: Partition,
    run: Run,
    ticket: Ticket,
    effect: Effect,
    reports: mpsc::Sender<Report>,
    /// Set when an event failed: nothing may be queued behind it (PROTOCOL S6).
    event_failed: Arc<AtomicBool>,
}

impl OnDelivery for Delivery {
    fn delivered(self, outcome: Result<i64, DeliveryFailure>) {
        let Self {
            partition,
            run,
            ticket,
            effect,
            reports,
            event_failed,
        } = self;
        if effect == Effect::Append && outcome.is_err() {
            event_failed.store(true, Ordering::SeqCst);
        }
        let outcome = outcome.map_err(|failure| Failed(failure.to_string()));
        // A worker that is gone wants no reports.
        let _ = reports.send(Report {
            partition,
            run,
            ticket,
            effect,
            outcome,
        });
    }
}

/// The producers of a sequencer process.
pub(super) struct Effects {
    events: LogProducer<Delivery>,
    /// Each kind queues apart, so that a large snapshot cannot fill the queue of what must not fail.
    dead_letters: LogProducer<Delivery>,
    snapshots: LogProducer<Delivery>,
    event_failed: Arc<AtomicBool>,
    events_topic: String,
    inbound_topic: String,
    dead_letters_topic: String,
    snapshots_topic: String,
    reports: mpsc::Sender<Report>,
}

impl Effects {
    pub(super) fn new(
        kafka: &KafkaConfig,
        linger_ms: u32,
        reports: mpsc::Sender<Report>,
    ) -> Result<Self, KafkaFault> {
        let side = ProducerSettings {
            linger_ms: 0,
            // Never given up: what is behind it must not overtake it (PROTOCOL S6, S7).
            message_timeout_ms: 0,
            queue_bytes: 256 << 20,
            // A dead letter is its original record with a few headers more.
            max_message_bytes: 2_000_000,
            gapless: false,
        };
        let events = ProducerSettings {
            linger_ms,
            max_message_bytes: 1_000_000,
            gapless: true,
            ..side.clone()
        };
        Ok(Self {
            events: LogProducer::new(kafka, &events)?,
            dead_letters: LogProducer::new(kafka, &side)?,
            snapshots: LogProducer::new(kafka, &side)?,
            event_failed: Arc::default(),
            events_topic: kafka.topic(Topic::Events),
            inbound_topic: kafka.topic(Topic::Inbound),
            dead_letters_topic: kafka.topic(Topic::DeadLetters),
            snapshots_topic: kafka.topic(Topic::Snapshots),
            reports,
        })
    }

    /// The effects of one shell.
    pub(super) fn of(&self, partition: Partition, run: Run) -> ShellIo<'_> {
        ShellIo {
            effects: self,
            partition,
            run,
        }
    }
}

/// The effects of one shell of one partition.
pub(super) struct ShellIo<'a> {
    effects: &'a Effects,
    partition: Partition,
    run: Run,
}

impl ShellIo<'_> {
    fn delivery(&self, ticket: Ticket, effect: Effect) -> Delivery {
        Delivery {
            partition: self.partition,
            run: self.run,
            ticket,
            effect,
            reports: self.effects.reports.clone(),
            event_failed: Arc::clone(&self.effects.event_failed),
        }
    }

    fn send(&self, producer: &LogProducer<Delivery>, record: AppendRecord<'_>, handle: Delivery) {
        if let Err(full) = producer.append(record, handle) {
            not_queued(full.0, "the producer's queue is full");
        }
    }
}

fn not_queued(handle: Delivery, why: &str) {
    handle.delivered(Err(DeliveryFailure::Unknown(why.to_owned())));
}

impl Io for ShellIo<'_> {
    fn append(&mut self, ticket: Ticket, event: Event) {
        let delivery = self.delivery(ticket, Effect::Append);
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
        let mut headers: Vec<(String, Option<Vec<u8>>)> = record
            .headers
            .into_iter()
            .map(|(name, value)| (name, value.map(|value| value.to_vec())))
            .collect();
        headers.extend(dead_letter::headers(
            &origin,
            refusal.reason,
            &refusal.detail,
        ));
        tracing::warn!(
            partition = %self.partition, offset = record.offset, reason = %refusal.reason, "dead letter"
        );
        metrics::counter!("dead_letters_total", "reason" => refusal.reason.as_str()).increment(1);
        let append = AppendRecord {
            topic: &self.effects.dead_letters_topic,
            partition: self.partition,
            key: record.key.as_deref().unwrap_or_default(),
            value: record.value.as_deref(),
            timestamp: None,
            headers: &headers,
        };
        self.send(
            &self.effects.dead_letters,
            append,
            self.delivery(ticket, Effect::DeadLetter),
        );
    }

    fn store_snapshot(&mut self, ticket: Ticket, snapshot: SequencerSnapshot) {
        let chunks = split(&snapshot, CHUNK_BYTES);
        let of = chunks.len();
        for chunk in chunks {
            let record = AppendRecord {
                topic: &self.effects.snapshots_topic,
                partition: self.partition,
                key: chunk.snapshot_id.as_bytes(),
                value: Some(&chunk.encode_to_vec()),
                timestamp: None,
                headers: &[],
            };
            let delivery = self.delivery(ticket, Effect::SnapshotChunk { of });
            self.send(&self.effects.snapshots, record, delivery);
        }
    }
}
