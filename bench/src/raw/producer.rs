//! A plain rdkafka producer with ingest's settings: no HTTP, no checks, no answers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Result, ensure};
use event_log::KafkaConfig;
use rdkafka::{
    ClientConfig, ClientContext,
    error::{KafkaError, RDKafkaErrorCode},
    producer::{BaseRecord, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer},
};
use schemas::topics::Topic;

use crate::load::traffic::Record;

/// How long to wait before a retry if librdkafka's queue is full.
const FULL: Duration = Duration::from_millis(1);
/// ingest's own linger time for batches.
pub(crate) const LINGER_MS: u32 = 5;
const FLUSH: Duration = Duration::from_secs(30);

/// A client with ingest's settings (`crates/event-log/src/producer.rs`).
pub(super) fn client(kafka: &KafkaConfig, linger_ms: u32) -> ClientConfig {
    let mut client = ClientConfig::new();
    client
        .set("bootstrap.servers", &kafka.brokers)
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .set("linger.ms", linger_ms.to_string())
        .set("batch.size", "1000000")
        .set("batch.num.messages", "100000")
        .set("queue.buffering.max.messages", "2000000")
        .set("queue.buffering.max.kbytes", "65536")
        .set("compression.type", "lz4");
    client
}

/// Counts the records that were delivered, and those that were not.
#[derive(Clone, Default)]
struct Counts {
    delivered: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
}

impl ClientContext for Counts {}

impl ProducerContext for Counts {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let count = match result {
            Ok(_) => &self.delivered,
            Err(_) => &self.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Produces to one topic.
pub(crate) struct PlainProducer {
    inner: ThreadedProducer<Counts>,
    counts: Counts,
    topic: String,
}

impl PlainProducer {
    /// Connects lazily.
    ///
    /// # Errors
    /// If librdkafka refuses a setting.
    pub(crate) fn new(kafka: &KafkaConfig, topic: Topic, linger_ms: u32) -> Result<Self> {
        let counts = Counts::default();
        Ok(Self {
            inner: client(kafka, linger_ms).create_with_context(counts.clone())?,
            counts,
            topic: kafka.topic(topic),
        })
    }

    /// Queues a record; waits while the queue is full.
    ///
    /// # Errors
    /// If librdkafka does not take the record.
    pub(crate) fn send(&self, partition: i32, key: &[u8], value: &[u8]) -> Result<()> {
        let mut record = BaseRecord::to(&self.topic)
            .partition(partition)
            .key(key)
            .payload(value);
        loop {
            match self.inner.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    record = back;
                    thread::sleep(FULL);
                }
                Err((error, _)) => return Err(error.into()),
            }
        }
    }

    /// Queues a record of `chat.inbound`.
    ///
    /// # Errors
    /// As [`PlainProducer::send`].
    pub(crate) fn send_record(&self, record: &Record) -> Result<()> {
        let partition = record.partition.get().into();
        self.send(partition, record.key.as_bytes(), &record.value)
    }

    /// How many records were delivered, once the outcome of all that are queued by now is known.
    ///
    /// # Errors
    /// If some records were not delivered.
    pub(crate) fn delivered(&self) -> Result<u64> {
        self.inner.flush(FLUSH)?;
        let failed = self.counts.failed.load(Ordering::Relaxed);
        ensure!(failed == 0, "{failed} records were not delivered");
        Ok(self.counts.delivered.load(Ordering::Relaxed))
    }
}
