use tokio::sync::oneshot;

use crate::{
    AppendRecord, DeliveryFailure, EventLogError, KafkaConfig, LogProducer, ProducerSettings,
};

/// A producer for records whose fate is waited for one by one.
pub struct Appender {
    producer: LogProducer<oneshot::Sender<Result<i64, DeliveryFailure>>>,
}

impl Appender {
    /// As [`LogProducer::new`].
    ///
    /// # Errors
    /// [`EventLogError`] where librdkafka refuses a setting.
    pub fn new(config: &KafkaConfig, settings: &ProducerSettings) -> Result<Self, EventLogError> {
        LogProducer::new(config, settings).map(|producer| Self { producer })
    }

    /// Appends a record; its offset.
    ///
    /// # Errors
    /// [`DeliveryFailure`]; unknown where more is queued than the settings allow, although nothing was appended then.
    pub async fn append(&self, record: AppendRecord<'_>) -> Result<i64, DeliveryFailure> {
        let (fate, outcome) = oneshot::channel();
        self.producer
            .append(record, fate)
            .map_err(|full| DeliveryFailure::Unknown(full.to_string()))?;
        outcome
            .await
            .expect("a producer answers every append it took")
    }
}
