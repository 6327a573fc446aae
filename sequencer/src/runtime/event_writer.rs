//! Appends events, which nothing may follow onto the log once one of them has failed (PROTOCOL S6).

use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
};

use event_log::{
    AppendRecord, EventLogError, KafkaConfig, LogProducer, OnDelivery, ProducerSettings,
};
use schemas::{Partition, event::Event, topics::Topic};

use super::effects::{QUEUE_BYTES, Run, never_given_up, not_queued};
use crate::shell::{OutputId, WriteFailed};

/// What became of an append.
pub(super) struct Appended {
    pub(super) partition: Partition,
    pub(super) run: Run,
    pub(super) ticket: OutputId,
    /// Its offset, where that is known.
    pub(super) outcome: Result<Option<i64>, WriteFailed>,
}

/// The producer of `chat.events`.
pub(super) struct EventWriter {
    producer: LogProducer<EventDelivery>,
    topic: String,
    fates: Arc<Fates>,
    /// Scratch for the event at hand; librdkafka copies what it is given.
    key: String,
    value: Vec<u8>,
}

/// Where what became of appends goes.
struct Fates {
    reports: mpsc::Sender<Appended>,
    /// Whether one failed.
    has_failed: AtomicBool,
}

struct EventDelivery {
    partition: Partition,
    run: Run,
    ticket: OutputId,
    fates: Arc<Fates>,
}

impl OnDelivery for EventDelivery {
    fn delivered(self, outcome: event_log::Delivery) {
        if outcome.is_err() {
            self.fates.has_failed.store(true, Ordering::SeqCst);
        }
        // A worker that is gone wants no reports.
        let _ = self.fates.reports.send(Appended {
            partition: self.partition,
            run: self.run,
            ticket: self.ticket,
            outcome: outcome.map_err(|failure| WriteFailed(failure.to_string())),
        });
    }
}

impl EventWriter {
    /// Reports on every append.
    pub(super) fn new(
        kafka: &KafkaConfig,
        linger_ms: u32,
        reports: mpsc::Sender<Appended>,
    ) -> Result<Self, EventLogError> {
        let settings = ProducerSettings {
            linger_ms,
            max_message_bytes: 1_000_000,
            gapless: true,
            ..never_given_up(QUEUE_BYTES)
        };
        Ok(Self {
            producer: LogProducer::new(kafka, &settings)?,
            topic: kafka.topic(Topic::Events),
            fates: Arc::new(Fates {
                reports,
                has_failed: AtomicBool::new(false),
            }),
            key: String::new(),
            value: Vec::new(),
        })
    }

    /// Queues an event, unless one before it has failed.
    pub(super) fn append(
        &mut self,
        partition: Partition,
        run: Run,
        ticket: OutputId,
        event: Event,
    ) {
        let delivery = EventDelivery {
            partition,
            run,
            ticket,
            fates: Arc::clone(&self.fates),
        };
        if self.fates.has_failed.load(Ordering::SeqCst) {
            return not_queued(delivery, "an event before it failed");
        }
        self.key.clear();
        if let Some(id) = event.conversation() {
            write!(self.key, "{id}").expect("a string takes anything");
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
