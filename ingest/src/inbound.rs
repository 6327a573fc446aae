//! Appends to `chat.inbound`.

use event_log::{
    AppendRecord, Delivery, DeliveryFailure, EventLogError, LogProducer, OnDelivery, ProducerPool,
    ProducerSettings, QueueFull,
};
use schemas::{
    CommandId, Partition,
    command::{Command, InboundValue},
    topics::Topic,
};
use tokio::sync::oneshot;

use crate::{
    batch::delivery::LineDelivery,
    byte_budget::cost_bytes,
    config::Config,
    fair_pool::PoolPermit,
    post::{EventKind, Post},
};

/// `chat.inbound` holds 1 MiB records; no limit of ours lets one come near.
const MAX_RECORD_BYTES: usize = 1_000_000;

/// A command, encoded for the log.
pub(crate) struct InboundRecord {
    pub(crate) kind: EventKind,
    pub(crate) partition: Partition,
    key: String,
    value: Vec<u8>,
}

impl From<Post> for InboundRecord {
    fn from(post: Post) -> Self {
        let kind = post.kind();
        let partition = post.command.partition();
        Self {
            kind,
            partition: partition.expect("no post is a control"),
            key: key_of(&post.command),
            value: InboundValue {
                id: post
                    .command_id
                    .map_or_else(String::new, CommandId::into_string),
                words: post.words,
                ..post.command.into()
            }
            .encode(),
        }
    }
}

/// The conversation, or the user whose profile it is.
fn key_of(command: &Command) -> String {
    match command {
        Command::SetProfile(profile) => profile.key().to_string(),
        _ => command
            .conversation()
            .map_or_else(String::new, |id| id.to_string()),
    }
}

impl InboundRecord {
    pub(crate) fn value(&self) -> &[u8] {
        &self.value
    }

    /// The bytes that it takes while it is in flight.
    pub(crate) fn cost_bytes(&self) -> u32 {
        cost_bytes(self.key.len() + self.value.len())
    }
}

/// The delivery handle of a single post: gives its bytes back and passes the report on.
pub(crate) struct SingleDelivery {
    pub(crate) report: oneshot::Sender<Result<i64, DeliveryFailure>>,
    pub(crate) permit: PoolPermit,
}

impl OnDelivery for SingleDelivery {
    fn delivered(self, outcome: Delivery) {
        // First, so that the bytes are free when the client has its response.
        drop(self.permit);
        self.report.delivered(outcome);
    }
}

/// The producers of `chat.inbound`: without linger for single posts, with a short linger for the lines of batches.
pub(crate) struct InboundProducer {
    topic: String,
    singles: ProducerPool<SingleDelivery>,
    batches: LogProducer<LineDelivery>,
}

impl InboundProducer {
    /// Connects lazily. The producers' queues are as large as the byte budgets, so they are never full before the budgets are used up.
    pub(crate) fn new(config: &Config) -> Result<Self, EventLogError> {
        let Config { ingest, kafka, .. } = config;
        let settings = |linger_ms| ProducerSettings {
            linger_ms,
            message_timeout_ms: ingest.message_timeout_ms,
            queue_bytes: ingest.in_flight_bytes as usize,
            max_message_bytes: MAX_RECORD_BYTES,
            gapless: false,
        };
        Ok(Self {
            topic: kafka.topic(Topic::Inbound),
            singles: ProducerPool::new(kafka, &settings(0), ingest.single_connections)?,
            batches: LogProducer::new(kafka, &settings(ingest.batch_linger_ms))?,
        })
    }

    pub(crate) fn append_single(
        &self,
        record: &InboundRecord,
        handle: SingleDelivery,
    ) -> Result<(), QueueFull<SingleDelivery>> {
        self.singles.append(self.append_record(record), handle)
    }

    pub(crate) fn append_line(
        &self,
        record: &InboundRecord,
        handle: LineDelivery,
    ) -> Result<(), QueueFull<LineDelivery>> {
        self.batches.append(self.append_record(record), handle)
    }

    /// The fatal error of a producer, if there is one: nothing will be appended any more.
    pub(crate) fn fatal_error(&self) -> Option<String> {
        self.singles
            .fatal_error()
            .or_else(|| self.batches.fatal_error())
    }

    fn append_record<'a>(&'a self, record: &'a InboundRecord) -> AppendRecord<'a> {
        AppendRecord {
            topic: &self.topic,
            partition: record.partition,
            key: record.key.as_bytes(),
            value: Some(&record.value),
            // The broker sets the time.
            timestamp: None,
            headers: &[],
        }
    }
}
