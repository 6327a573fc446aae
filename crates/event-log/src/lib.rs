#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod admin;
mod appender;
mod channel;
mod config;
mod context;
mod fetcher;
mod kept;
mod member;
mod producer;
mod properties;
mod reader;
mod record;
mod scan;
mod sequenced;
mod spread;
#[cfg(feature = "test-topics")]
mod test_topics;
mod unpolled;

pub use admin::{Admin, TopicDifference};
pub use appender::Appender;
pub use channel::{SaslMechanism, SecurityProtocol};
pub use config::KafkaConfig;
pub use fetcher::{FetchError, Fetched, Fetcher};
pub use member::{GroupEvent, GroupMember, Released};
pub use producer::{
    AppendRecord, Delivery, DeliveryFailure, LogProducer, OnDelivery, ProducerSettings, QueueFull,
    placed,
};
pub use properties::ClientProperties;
pub use reader::{Bounds, LogReader};
pub use record::{Record, RecordRef};
pub use scan::Scanned;
pub use sequenced::Newest;
pub use spread::SpreadProducer;
#[cfg(feature = "test-topics")]
pub use test_topics::TestTopics;

/// Kafka could not be reached or would not do what was asked.
#[derive(Debug, thiserror::Error)]
#[error("Kafka: {what}: {source}{hint}", hint = context::in_brackets(*.hint))]
pub struct EventLogError {
    what: String,
    hint: Option<&'static str>,
    #[source]
    source: rdkafka::error::KafkaError,
}

impl EventLogError {
    fn new(what: impl Into<String>, source: rdkafka::error::KafkaError) -> Self {
        Self {
            what: what.into(),
            hint: context::hint(&source),
            source,
        }
    }
}
