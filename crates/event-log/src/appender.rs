use tokio::sync::oneshot;

use crate::{
    AppendRecord, DeliveryFailure, EventLogError, KafkaConfig, LogProducer, ProducerSettings,
};

/// A producer for records whose outcomes are awaited one by one.
pub struct Appender {
    producer: LogProducer<oneshot::Sender<Result<i64, DeliveryFailure>>>,
}

impl Appender {
    /// As [`LogProducer::new`].
    ///
    /// # Errors
    /// [`EventLogError`] if librdkafka refuses a setting.
    pub fn new(config: &KafkaConfig, settings: &ProducerSettings) -> Result<Self, EventLogError> {
        LogProducer::new(config, settings).map(|producer| Self { producer })
    }

    /// Appends a record and returns its offset.
    ///
    /// # Errors
    /// [`DeliveryFailure`]; unknown if the queue is full by the settings, although nothing was appended then.
    pub async fn append(&self, record: AppendRecord<'_>) -> Result<i64, DeliveryFailure> {
        let (sender, outcome) = oneshot::channel();
        self.producer
            .append(record, sender)
            .map_err(|full| DeliveryFailure::Unknown(full.to_string()))?;
        outcome
            .await
            .expect("a producer answers every append it took")
    }
}
