use std::time::Duration;

use event_log::{
    AppendRecord, Appender, DeliveryFailure, EventLogError, KafkaConfig, ProducerSettings, Record,
};
use schemas::{dead_letter, event::SkippedRecord, topics::Topic};

const FIRST_RETRY: Duration = Duration::from_millis(100);
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// Writes records of `chat.events` that are not events to the dead-letter topic.
pub(crate) struct DeadLetters {
    appender: Appender,
    topic: String,
    source: String,
    stage: String,
}

/// A record that is skipped, and why.
#[derive(Debug)]
pub(crate) struct Poison {
    pub(crate) record: Record,
    pub(crate) why: SkippedRecord,
}

impl DeadLetters {
    pub(crate) fn new(config: &KafkaConfig, stage: &str) -> Result<Self, EventLogError> {
        let settings = ProducerSettings {
            linger_ms: 0,
            message_timeout_ms: 30_000,
            queue_bytes: 16 << 20,
            max_message_bytes: 2_000_000,
            gapless: false,
        };
        Ok(Self {
            appender: Appender::new(config, &settings)?,
            topic: config.topic(Topic::DeadLetters),
            source: config.topic(Topic::Events),
            stage: stage.to_owned(),
        })
    }

    /// Returns once the dead letter is on its topic, however long that takes: until then the position must not move past the record. Each failure is
    /// given to `on_failure`.
    pub(crate) async fn dead_letter(&self, poison: &Poison, on_failure: impl Fn(String)) {
        let mut pause = FIRST_RETRY;
        while let Err(error) = self.append(poison).await {
            on_failure(format!("a dead letter cannot be appended: {error}"));
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_RETRY);
        }
        let Poison { record, why } = poison;
        tracing::warn!(
            partition = %record.partition, offset = record.offset, reason = %why.reason, detail = why.detail, "dead letter"
        );
        metrics::counter!("tidemark_dead_letters_total", "reason" => why.reason.as_str())
            .increment(1);
    }

    async fn append(&self, poison: &Poison) -> Result<(), DeliveryFailure> {
        let Poison { record, why } = poison;
        let origin = dead_letter::Origin {
            topic: &self.source,
            partition: record.partition,
            offset: record.offset,
            stage: &self.stage,
        };
        let original = dead_letter::OriginalRecord {
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: &record.headers,
        };
        let letter =
            dead_letter::DeadLetterRecord::new(&origin, why.reason, &why.detail, &original);
        let append = AppendRecord {
            topic: &self.topic,
            partition: record.partition,
            key: &letter.key,
            value: letter.value.as_deref(),
            timestamp: None,
            headers: &letter.headers,
        };
        self.appender.append(append).await?;
        Ok(())
    }
}
