//! Appends events. Once one has failed, no later event may get onto the log (PROTOCOL S6).

use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
};

use event_log::{
    AppendRecord, AssignmentGeneration, EventLogError, KafkaConfig, LogProducer, OnDelivery,
    ProducerSettings,
};
use schemas::{Partition, event::Event, topics::Topic};

use super::producers::{QUEUE_BYTES, not_queued, without_timeout};
use crate::shell::{OutputId, WriteFailed};

/// The outcome of an append.
pub(super) struct Appended {
    pub(super) partition: Partition,
    pub(super) generation: AssignmentGeneration,
    pub(super) ticket: OutputId,
    /// The event's offset, if known.
    pub(super) outcome: Result<Option<i64>, WriteFailed>,
}

/// The producer of `chat.events`.
pub(super) struct EventWriter {
    producer: LogProducer<EventDelivery>,
    topic: String,
    outcomes: Arc<Outcomes>,
    /// Scratch for the event at hand; librdkafka copies what it is given.
    key: String,
    value: Vec<u8>,
}

/// Receives the outcomes of appends.
struct Outcomes {
    reports: mpsc::Sender<Appended>,
    /// Whether an append has failed.
    has_failed: AtomicBool,
}

struct EventDelivery {
    partition: Partition,
    generation: AssignmentGeneration,
    ticket: OutputId,
    outcomes: Arc<Outcomes>,
}

impl OnDelivery for EventDelivery {
    fn delivered(self, outcome: event_log::Delivery) {
        if outcome.is_err() {
            self.outcomes.has_failed.store(true, Ordering::SeqCst);
        }
        // The receiver may be gone if the worker has ended.
        let _ = self.outcomes.reports.send(Appended {
            partition: self.partition,
            generation: self.generation,
            ticket: self.ticket,
            outcome: outcome.map_err(|failure| WriteFailed(failure.to_string())),
        });
    }
}

impl EventWriter {
    /// `reports` receives the outcome of every append.
    pub(super) fn new(
        kafka: &KafkaConfig,
        linger_ms: u32,
        reports: mpsc::Sender<Appended>,
    ) -> Result<Self, EventLogError> {
        let settings = ProducerSettings {
            linger_ms,
            max_message_bytes: 1_000_000,
            gapless: true,
            ..without_timeout(QUEUE_BYTES)
        };
        Ok(Self {
            producer: LogProducer::new(kafka, &settings)?,
            topic: kafka.topic(Topic::Events),
            outcomes: Arc::new(Outcomes {
                reports,
                has_failed: AtomicBool::new(false),
            }),
            key: String::new(),
            value: Vec::new(),
        })
    }

    /// Queues an event, unless an earlier one has failed.
    pub(super) fn append(
        &mut self,
        partition: Partition,
        generation: AssignmentGeneration,
        ticket: OutputId,
        event: Event,
    ) {
        let delivery = EventDelivery {
            partition,
            generation,
            ticket,
            outcomes: Arc::clone(&self.outcomes),
        };
        if self.outcomes.has_failed.load(Ordering::SeqCst) {
            return not_queued(delivery, "an earlier event failed");
        }
        self.key.clear();
        if let Some(scope) = event.body.scope() {
            write!(self.key, "{}", scope.key()).expect("a string takes anything");
        }
        let timestamp = Some(event.ts);
        self.value.clear();
        event.encode_to(&mut self.value);
        let record = AppendRecord {
            topic: &self.topic,
            partition,
            key: self.key.as_bytes(),
            value: Some(&self.value),
            timestamp,
            headers: &[],
        };
        if let Err(full) = self.producer.append(record, delivery) {
            not_queued(full.0, "the producer's queue is full");
        }
    }
}
