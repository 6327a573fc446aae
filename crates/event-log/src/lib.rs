#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod admin;
mod appender;
mod channel;
mod client_log;
mod config;
mod context;
mod fetcher;
mod generation;
mod halted;
mod log_ends;
mod member;
mod pace;
mod post_producer;
mod producer;
mod properties;
mod reader;
mod reconnect;
mod record;
mod reporting;
mod rests;
mod scan;
mod sequenced;
#[cfg(feature = "test-topics")]
mod test_topics;

pub use admin::{Admin, TopicDifference};
pub use appender::Appender;
pub use channel::{SaslMechanism, SecurityProtocol};
pub use config::KafkaConfig;
pub use fetcher::{FetchError, Fetched, Fetcher};
pub use generation::AssignmentGeneration;
pub use halted::HaltedPartitions;
pub use log_ends::LogEnds;
pub use member::{GroupEvent, GroupMember, RevokeGuard};
pub use post_producer::{PostClient, PostProducer};
pub use producer::{
    AppendRecord, Delivery, DeliveryFailure, LogProducer, OnDelivery, ProducerSettings, QueueFull,
    require_offset,
};
pub use properties::ClientProperties;
pub use reader::LogReader;
pub use record::{Record, RecordRef};
pub use rests::give_way;
pub use scan::Scanned;
pub use sequenced::Sequenced;
#[cfg(feature = "test-topics")]
pub use test_topics::TestTopics;

/// Kafka could not be reached, or refused the request.
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
