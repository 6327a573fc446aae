//! Appends to `chat.inbound`.

use event_log::{
    AppendRecord, Delivery, DeliveryFailure, EventLogError, LogProducer, OnDelivery,
    ProducerSettings, QueueFull, SpreadProducer,
};
use schemas::{Partition, command::Command, topics::Topic};
use tokio::sync::oneshot;

use crate::{
    batch::LineDelivery,
    config::Config,
    posted::{EventKind, Posted},
    service::SingleRoom,
};

/// What a record takes beside its key and value while it is under way: librdkafka's own fields, the handle, and what the allocator
/// rounds up.
const OVERHEAD_BYTES: usize = 512;

/// `chat.inbound` holds 1 MiB records; no limit of ours lets one come near.
const MAX_RECORD_BYTES: usize = 1_000_000;

/// A command as it will lie on the log.
pub(crate) struct InboundRecord {
    pub(crate) kind: EventKind,
    pub(crate) partition: Partition,
    key: String,
    value: Vec<u8>,
}

impl From<Posted> for InboundRecord {
    fn from(posted: Posted) -> Self {
        let kind = posted.kind();
        let conversation = posted.conversation();
        Self {
            kind,
            partition: conversation.partition(),
            key: conversation.to_string(),
            value: Command::from(posted).encode(),
        }
    }
}

impl InboundRecord {
    /// As it will lie on the log.
    pub(crate) fn value(&self) -> &[u8] {
        &self.value
    }

    /// What it takes while it is under way, bytes.
    pub(crate) fn cost_bytes(&self) -> u32 {
        cost_bytes(self.key.len() + self.value.len())
    }
}

/// What a record of `bytes` takes while it is under way, bytes.
pub(crate) fn cost_bytes(bytes: usize) -> u32 {
    u32::try_from(bytes + OVERHEAD_BYTES).unwrap_or(u32::MAX)
}

/// Answers a single post, and gives its room back.
pub(crate) struct SingleDelivery {
    pub(crate) report: oneshot::Sender<Result<i64, DeliveryFailure>>,
    pub(crate) room: SingleRoom,
}

impl OnDelivery for SingleDelivery {
    fn delivered(self, outcome: Delivery) {
        // First the room, so that whoever has the answer finds it free.
        drop(self.room);
        self.report.delivered(outcome);
    }
}

/// The two ways onto `chat.inbound`: at once for single posts, with a little company for the lines of batches.
pub(crate) struct Inbound {
    topic: String,
    singles: SpreadProducer<SingleDelivery>,
    batches: LogProducer<LineDelivery>,
}

impl Inbound {
    /// Connects lazily. The producers' queues hold what the rooms of both sorts let through, so they are never full before the rooms are.
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
            singles: SpreadProducer::new(kafka, &settings(0), ingest.single_connections)?,
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

    /// Why nothing will ever be appended again, where that is so.
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
