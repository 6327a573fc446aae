use std::{marker::PhantomData, time::Duration};

use rdkafka::{
    ClientContext, Message as _,
    config::RDKafkaLogLevel,
    error::{KafkaError, RDKafkaErrorCode},
    message::{Header, OwnedHeaders},
    producer::{BaseRecord, DeliveryResult, Producer as _, ProducerContext},
};
use schemas::{Partition, TimestampMs};

use crate::{
    EventLogError, KafkaConfig, config::OwnSettings as _, context, reconnect::ReconnectingClient,
    reporting::ReportingProducer,
};

/// The settings in which Tidemark's producers differ.
#[derive(Clone, Debug)]
pub struct ProducerSettings {
    /// How long a record may wait for others of its batch, milliseconds.
    pub linger_ms: u32,
    /// After this long an unacknowledged record fails, milliseconds; 0 for never (PROTOCOL S6).
    pub message_timeout_ms: u32,
    /// The most that may be queued in librdkafka, bytes.
    pub queue_bytes: usize,
    /// The largest record that is taken, bytes.
    pub max_message_bytes: usize,
    /// Whether a record that is finally refused ends the producer, so that no later record gets onto the log (PROTOCOL S6). Otherwise only that
    /// record fails.
    pub gapless: bool,
}

impl ProducerSettings {
    /// For a few records that must get onto the log, no matter how long it takes.
    pub const WITHOUT_TIMEOUT: Self = Self {
        linger_ms: 0,
        message_timeout_ms: 0,
        queue_bytes: 1 << 20,
        max_message_bytes: 100_000,
        gapless: true,
    };
}

/// Why an append failed, or may have failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryFailure {
    /// The broker refused the record; it is not on the log.
    #[error("refused: {0}")]
    Refused(String),
    /// The record may or may not be on the log.
    #[error("unknown: {0}")]
    Unknown(String),
}

/// The outcome of an append: on the log at this offset, or at an unknown one (`None`). A broker that had already stored a retried batch
/// may not know its offset any more.
pub type Delivery = Result<Option<i64>, DeliveryFailure>;

/// Takes the outcome of one append. Called on the thread that reports for the producer, so it must not block.
pub trait OnDelivery: Send + Sync + 'static {
    /// The outcome is known.
    fn delivered(self, outcome: Delivery);
}

/// The offset of an appended record, for callers that need it: an unknown offset counts as an unknown outcome.
///
/// # Errors
/// [`DeliveryFailure`], from the producer or for want of an offset.
pub fn require_offset(outcome: Delivery) -> Result<i64, DeliveryFailure> {
    outcome?
        .ok_or_else(|| DeliveryFailure::Unknown("stored at an offset that is not known".to_owned()))
}

/// Receives the outcome with [`require_offset`] applied.
impl OnDelivery for tokio::sync::oneshot::Sender<Result<i64, DeliveryFailure>> {
    fn delivered(self, outcome: Delivery) {
        // The caller may have gone.
        let _ = self.send(require_offset(outcome));
    }
}

/// librdkafka's queue is full. Nothing was appended; the delivery handle is returned.
#[derive(Debug, thiserror::Error)]
#[error("the producer's queue is full")]
pub struct QueueFull<D>(pub D);

/// A record to append.
#[derive(Clone, Copy, Debug)]
pub struct AppendRecord<'a> {
    /// The topic's full name.
    pub topic: &'a str,
    /// The partition, always explicit.
    pub partition: Partition,
    /// The key; empty for none.
    pub key: &'a [u8],
    /// The value; `None` for a null one.
    pub value: Option<&'a [u8]>,
    /// CreateTime; `None` for now, or if the broker sets it.
    pub timestamp: Option<TimestampMs>,
    /// Headers, in order.
    pub headers: &'a [(String, Option<Vec<u8>>)],
}

struct Context<D>(PhantomData<fn() -> D>);

impl<D: OnDelivery> ClientContext for Context<D> {
    fn error(&self, error: KafkaError, reason: &str) {
        context::report("producer", &error, reason);
    }

    fn log(&self, level: RDKafkaLogLevel, _facility: &str, message: &str) {
        context::log("producer", level, message);
    }
}

impl<D: OnDelivery> ProducerContext for Context<D> {
    type DeliveryOpaque = Box<D>;

    fn delivery(&self, result: &DeliveryResult<'_>, handle: Box<D>) {
        handle.delivered(match result {
            Ok(message) => Ok(known_offset(message.offset())),
            Err((error, _)) => Err(classify(error)),
        });
    }
}

/// librdkafka reports −1, or −1001 (invalid), for a record that is on the log if the broker did not tell its offset.
fn known_offset(reported: i64) -> Option<i64> {
    (reported >= 0).then_some(reported)
}

/// A record is known not to be on the log only if a broker or the client itself finally refused it.
fn classify(error: &KafkaError) -> DeliveryFailure {
    use RDKafkaErrorCode as Code;
    match error.rdkafka_error_code() {
        Some(
            Code::MessageSizeTooLarge
            | Code::InvalidMessageSize
            | Code::InvalidRecord
            | Code::InvalidTimestamp
            | Code::TopicAuthorizationFailed
            | Code::UnknownTopicOrPartition
            | Code::UnknownPartition
            | Code::UnknownTopic
            | Code::PolicyViolation,
        ) => DeliveryFailure::Refused(context::explained(error)),
        _ => DeliveryFailure::Unknown(context::explained(error)),
    }
}

/// An idempotent producer with acks=all that appends to explicit partitions. Within one partition its records keep
/// their order.
pub struct LogProducer<D: OnDelivery> {
    inner: ReconnectingClient<ReportingProducer<Context<D>>>,
}

impl<D: OnDelivery> LogProducer<D> {
    /// Connects lazily: a broker that is away does not cause an error here.
    ///
    /// # Errors
    /// [`EventLogError`] if librdkafka refuses a setting.
    pub fn new(config: &KafkaConfig, settings: &ProducerSettings) -> Result<Self, EventLogError> {
        config.require_present("creating a producer")?;
        let mut client = config.client();
        client
            .own("enable.idempotence", "true")
            .own("acks", "all")
            .own("enable.gapless.guarantee", settings.gapless.to_string())
            .own("linger.ms", settings.linger_ms.to_string())
            .own(
                "message.timeout.ms",
                settings.message_timeout_ms.to_string(),
            )
            .own("retry.backoff.ms", "20")
            .own("batch.size", "1000000")
            .own("batch.num.messages", "100000")
            .own("queue.buffering.max.messages", "2000000")
            .own(
                "queue.buffering.max.kbytes",
                (settings.queue_bytes / 1024).max(1).to_string(),
            )
            .own("message.max.bytes", settings.max_message_bytes.to_string())
            .own("compression.type", "lz4");
        let inner = client
            .create_with_context(Context(PhantomData))
            .and_then(ReportingProducer::new)
            .map(|producer| ReconnectingClient::new(producer, &config.brokers))
            .map_err(|e| EventLogError::new("creating a producer", e))?;
        Ok(Self { inner })
    }

    /// Queues a record; `handle` gets the outcome exactly once, also if librdkafka refuses the record at once.
    ///
    /// # Errors
    /// [`QueueFull`], with the handle.
    pub fn append(&self, record: AppendRecord<'_>, handle: D) -> Result<(), QueueFull<D>> {
        let mut base = BaseRecord::with_opaque_to(record.topic, Box::new(handle))
            .partition(record.partition.get().into())
            .key(record.key);
        if let Some(value) = record.value {
            base = base.payload(value);
        }
        if let Some(TimestampMs(ms)) = record.timestamp {
            base = base.timestamp(ms);
        }
        if !record.headers.is_empty() {
            base = base.headers(owned_headers(record.headers));
        }
        match self.inner.send(base) {
            Ok(()) => Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), base)) => {
                Err(QueueFull(*base.delivery_opaque))
            }
            Err((error, base)) => {
                base.delivery_opaque.delivered(Err(classify(&error)));
                Ok(())
            }
        }
    }

    /// The error after which the producer cannot append any more: the process should end.
    pub fn fatal_error(&self) -> Option<String> {
        self.inner
            .client()
            .fatal_error()
            .map(|(code, reason)| format!("{code}: {reason}"))
    }

    /// Waits at most `deadline` until the outcome of every queued record is known. Dropping a producer drops its queue.
    ///
    /// # Errors
    /// [`EventLogError`] if records are still unacknowledged.
    pub fn flush(&self, deadline: Duration) -> Result<(), EventLogError> {
        self.inner
            .flush(deadline)
            .map_err(|e| EventLogError::new("flushing a producer", e))
    }
}

fn owned_headers(headers: &[(String, Option<Vec<u8>>)]) -> OwnedHeaders {
    headers.iter().fold(
        OwnedHeaders::new_with_capacity(headers.len()),
        |all, (key, value)| {
            all.insert(Header {
                key,
                value: value.as_ref(),
            })
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_offset_is_an_unknown_outcome() {
        for reported in [-1, -1001] {
            let outcome = require_offset(Ok(known_offset(reported)));
            assert!(
                matches!(outcome, Err(DeliveryFailure::Unknown(_))),
                "{outcome:?}"
            );
        }
        assert_eq!(require_offset(Ok(known_offset(0))), Ok(0));
    }
}
