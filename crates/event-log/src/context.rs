use rdkafka::{
    ClientContext,
    consumer::ConsumerContext,
    error::{KafkaError, RDKafkaErrorCode},
};

/// Logs what goes wrong between librdkafka and the brokers, under the client's name. What a caller has to know comes
/// back from its calls; this is for people.
pub(crate) struct Named(pub(crate) &'static str);

impl ClientContext for Named {
    fn error(&self, error: KafkaError, reason: &str) {
        log(self.0, &error, reason);
    }
}

impl ConsumerContext for Named {}

pub(crate) fn log(client: &str, error: &KafkaError, reason: &str) {
    match error {
        // Having read everything is no error, whatever librdkafka calls it.
        KafkaError::PartitionEOF(_) => {}
        KafkaError::Global(RDKafkaErrorCode::PartitionEOF) => {}
        _ => tracing::warn!(client, %error, reason, "Kafka"),
    }
}
