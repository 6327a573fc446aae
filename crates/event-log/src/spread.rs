//! Appending over several connections to each broker.
//!
//! librdkafka sends a request for each partition, and an idempotent producer has at most five of them under way on a
//! connection (confluentinc/librdkafka issues 1700 and 2216): records of 64 partitions leave in 13 round trips.

use crate::{
    AppendRecord, EventLogError, KafkaConfig, LogProducer, OnDelivery, ProducerSettings, QueueFull,
};

/// Producers that share the partitions among them. A partition is always the same one's, so that its records keep their
/// order.
pub struct SpreadProducer<D: OnDelivery> {
    shares: Vec<LogProducer<D>>,
}

impl<D: OnDelivery> SpreadProducer<D> {
    /// With so many connections to each broker, one at least. Each may queue what `settings` say.
    ///
    /// # Errors
    /// As [`LogProducer::new`].
    pub fn new(
        config: &KafkaConfig,
        settings: &ProducerSettings,
        connections: usize,
    ) -> Result<Self, EventLogError> {
        let shares = (0..connections.max(1)).map(|_| LogProducer::new(config, settings));
        Ok(Self {
            shares: shares.collect::<Result<_, _>>()?,
        })
    }

    /// As [`LogProducer::append`].
    ///
    /// # Errors
    /// [`QueueFull`], with the handle.
    pub fn append(&self, record: AppendRecord<'_>, handle: D) -> Result<(), QueueFull<D>> {
        let share = usize::from(record.partition.get()) % self.shares.len();
        self.shares[share].append(record, handle)
    }

    /// Why one of them will never append again, where that is so: the process should end.
    pub fn fatal_error(&self) -> Option<String> {
        self.shares.iter().find_map(LogProducer::fatal_error)
    }
}
