//! What all requests share.

use std::sync::Arc;

use event_log::{KafkaConfig, LogProducer};
use posting::{ByteBudget, FairPool, Poster, producer_settings};
use schemas::topics::Topic;
use service_runtime::Shutdown;

use crate::batch::delivery::LineDelivery;

pub(crate) struct Ingest {
    pub(crate) poster: Poster,
    /// The full name of `chat.inbound`.
    pub(crate) topic: String,
    /// The producer of the lines of batches, with a short linger; that of single posts has none.
    pub(crate) lines: LogProducer<LineDelivery>,
    /// The bytes of the lines and results of batches.
    pub(crate) batches: ByteBudget,
    /// The batches that are read at a time.
    pub(crate) places: Arc<FairPool>,
    pub(crate) shutdown: Shutdown,
}

impl Ingest {
    pub(crate) fn new(
        poster: Poster,
        kafka: &KafkaConfig,
        shutdown: Shutdown,
    ) -> anyhow::Result<Self> {
        let config = poster.config();
        Ok(Self {
            topic: kafka.topic(Topic::Inbound),
            lines: LogProducer::new(kafka, &producer_settings(config, config.batch_linger_ms))?,
            batches: config.batches(),
            places: FairPool::new(config.places()),
            poster,
            shutdown,
        })
    }
}
