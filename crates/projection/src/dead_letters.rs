use std::time::Duration;

use event_log::{
    AppendRecord, DeliveryFailure, KafkaConfig, KafkaFault, LogProducer, ProducerSettings, Record,
};
use schemas::{
    dead_letter::{self, Reason},
    topics::Topic,
};
use tokio::sync::oneshot;

const FIRST_RETRY: Duration = Duration::from_millis(100);
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// Puts records of `chat.events` that are no events where people find them.
pub(crate) struct DeadLetters {
    producer: LogProducer<oneshot::Sender<Result<i64, DeliveryFailure>>>,
    topic: String,
    source: String,
    stage: String,
}

/// A record that is no event, and why.
#[derive(Debug)]
pub(crate) struct Poison {
    pub(crate) record: Record,
    pub(crate) reason: Reason,
    pub(crate) wrong: String,
}

impl DeadLetters {
    pub(crate) fn new(config: &KafkaConfig, stage: &str) -> Result<Self, KafkaFault> {
        let settings = ProducerSettings {
            linger_ms: 0,
            message_timeout_ms: 30_000,
            queue_bytes: 16 << 20,
            max_message_bytes: 2_000_000,
            gapless: false,
        };
        Ok(Self {
            producer: LogProducer::new(config, &settings)?,
            topic: config.topic(Topic::DeadLetters),
            source: config.topic(Topic::Events),
            stage: stage.to_owned(),
        })
    }

    /// Returns once the dead letter is on its topic, however long that takes: the position must not pass it before.
    pub(crate) async fn bury(&self, poison: &Poison) {
        let mut pause = FIRST_RETRY;
        while let Err(error) = self.append(poison).await {
            tracing::warn!(%error, "a dead letter could not be appended");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_RETRY);
        }
        let Poison {
            record,
            reason,
            wrong,
        } = poison;
        tracing::warn!(
            partition = %record.partition, offset = record.offset, %reason, wrong, "dead letter"
        );
        metrics::counter!("dead_letters_total", "reason" => reason.as_str()).increment(1);
    }

    async fn append(&self, poison: &Poison) -> Result<(), DeliveryFailure> {
        let (fate, outcome) = oneshot::channel();
        let Poison {
            record,
            reason,
            wrong,
        } = poison;
        let origin = dead_letter::Origin {
            topic: &self.source,
            partition: record.partition,
            offset: record.offset,
            stage: &self.stage,
        };
        let mut headers = record.headers.clone();
        headers.extend(dead_letter::headers(&origin, *reason, wrong));
        let append = AppendRecord {
            topic: &self.topic,
            partition: record.partition,
            key: record.key.as_deref().unwrap_or_default(),
            value: record.value.as_deref(),
            timestamp: None,
            headers: &headers,
        };
        self.producer
            .append(append, fate)
            .map_err(|full| DeliveryFailure::Unknown(full.to_string()))?;
        outcome
            .await
            .expect("a producer answers every append it took")
            .map(|_| ())
    }
}
