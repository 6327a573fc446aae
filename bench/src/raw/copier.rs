//! Consumes and produces the same bytes, without decoding them.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use event_log::KafkaConfig;
use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
};
use schemas::{PartitionMap, topics::Topic};

use super::producer::PlainProducer;

const POLL: Duration = Duration::from_secs(10);

/// Copies records of `chat.inbound` to `chat.events` of another deployment on the same broker.
pub(crate) struct Copier {
    consumer: BaseConsumer,
    producer: PlainProducer,
}

impl Copier {
    /// Connects, and copies a first record; starts at the given offsets of the partitions.
    ///
    /// # Errors
    /// If the record does not come, or is not delivered.
    pub(crate) fn start(
        from: &KafkaConfig,
        offsets: &PartitionMap<i64>,
        to: &KafkaConfig,
    ) -> Result<Self> {
        let copier = Self {
            consumer: consumer(from, offsets)?,
            producer: PlainProducer::new(to, Topic::Events, 0)?,
        };
        copier.copy(1)?;
        Ok(copier)
    }

    /// Copies the next `count` records.
    ///
    /// # Errors
    /// If the records do not come, or are not delivered.
    pub(crate) fn copy(&self, count: u64) -> Result<()> {
        let before = self.producer.delivered()?;
        for _ in 0..count {
            let record = self.consumer.poll(POLL).context("no more records")??;
            let (key, value) = (record.key(), record.payload());
            self.producer.send(
                record.partition(),
                key.unwrap_or_default(),
                value.unwrap_or_default(),
            )?;
        }
        let copied = self.producer.delivered()? - before;
        ensure!(copied == count, "{copied} of {count} records copied");
        Ok(())
    }
}

/// A consumer with the sequencer's settings (`crates/event-log/src/fetcher.rs`).
fn consumer(kafka: &KafkaConfig, offsets: &PartitionMap<i64>) -> Result<BaseConsumer> {
    let mut assigned = TopicPartitionList::new();
    let topic = kafka.topic(Topic::Inbound);
    for (partition, offset) in offsets.iter() {
        let offset = Offset::Offset(*offset);
        assigned.add_partition_offset(&topic, partition.get().into(), offset)?;
    }
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &kafka.brokers)
        .set("group.id", "copier")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("fetch.queue.backoff.ms", "10")
        .set("fetch.min.bytes", "1000000")
        .set("fetch.wait.max.ms", "5")
        .set("queued.min.messages", "10000")
        .set("queued.max.messages.kbytes", "2048")
        .create()?;
    consumer.assign(&assigned)?;
    Ok(consumer)
}
