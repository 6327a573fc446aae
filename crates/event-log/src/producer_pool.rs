//! Appending over several connections to each broker.
//!
//! librdkafka sends a request for each partition, and an idempotent producer has at most five of them in flight on a connection
//! (confluentinc/librdkafka issues 1700 and 2216): records of 64 partitions leave in 13 round trips.

use crate::{
    AppendRecord, EventLogError, KafkaConfig, LogProducer, OnDelivery, ProducerSettings, QueueFull,
};

/// Producers that divide the partitions among themselves. A partition always has the same producer, so that its records keep their order.
pub struct ProducerPool<D: OnDelivery> {
    producers: Vec<LogProducer<D>>,
}

impl<D: OnDelivery> ProducerPool<D> {
    /// A pool with `connections` connections to each broker, at least one. Each producer has a queue as `settings` say.
    ///
    /// # Errors
    /// As [`LogProducer::new`].
    pub fn new(
        config: &KafkaConfig,
        settings: &ProducerSettings,
        connections: usize,
    ) -> Result<Self, EventLogError> {
        let producers = (0..connections.max(1)).map(|_| LogProducer::new(config, settings));
        Ok(Self {
            producers: producers.collect::<Result<_, _>>()?,
        })
    }

    /// As [`LogProducer::append`].
    ///
    /// # Errors
    /// [`QueueFull`], with the handle.
    pub fn append(&self, record: AppendRecord<'_>, handle: D) -> Result<(), QueueFull<D>> {
        let index = usize::from(record.partition.get()) % self.producers.len();
        self.producers[index].append(record, handle)
    }

    /// The error after which one of the producers cannot append any more: the process should end.
    pub fn fatal_error(&self) -> Option<String> {
        self.producers.iter().find_map(LogProducer::fatal_error)
    }
}
