use std::sync::Arc;

use audit::Sources;
use event_log::{EventLogError, KafkaConfig, LogReader};
use message_store::{MessageStore, Sink};
use schemas::{OffsetRange, Partition, PartitionMap, topics::Topic};
use unread_store::UnreadStore;

use crate::RebuildError;

/// What a rebuild reads and writes.
#[derive(Clone)]
pub struct Context {
    pub(crate) kafka: KafkaConfig,
    pub(crate) store: MessageStore,
    pub(crate) unread: UnreadStore,
    pub(crate) reader: Arc<LogReader>,
    /// The full name of `chat.events`.
    pub(crate) topic: String,
}

impl Context {
    /// The log, MySQL and Redis. Redis is used to rebuild its own data, and to drop cached profiles after a rebuild of contacts.
    ///
    /// # Errors
    /// [`EventLogError`] if librdkafka refuses a setting.
    pub fn new(
        kafka: &KafkaConfig,
        store: MessageStore,
        unread: UnreadStore,
    ) -> Result<Self, EventLogError> {
        Ok(Self {
            kafka: kafka.clone(),
            store,
            unread,
            reader: Arc::new(LogReader::new(kafka)?),
            topic: kafka.topic(Topic::Events),
        })
    }

    /// The same context with its own reader, for concurrent work.
    pub(crate) fn with_own_reader(&self) -> Result<Self, EventLogError> {
        Ok(Self {
            reader: Arc::new(LogReader::new(&self.kafka)?),
            ..self.clone()
        })
    }

    /// The log and the shadow tables of `sink`, for an audit.
    pub(crate) fn shadow_sources(&self, sink: Sink) -> Sources {
        Sources {
            kafka: self.kafka.clone(),
            messages: self.store.shadow(sink),
            unread: self.unread.clone(),
        }
    }

    /// The log and the live data, for an audit.
    pub(crate) fn live_sources(&self) -> Sources {
        Sources {
            kafka: self.kafka.clone(),
            messages: self.store.clone(),
            unread: self.unread.clone(),
        }
    }

    pub(crate) async fn bounds(
        &self,
        partitions: Vec<Partition>,
    ) -> Result<PartitionMap<OffsetRange>, EventLogError> {
        self.reader
            .blocking(move |reader| reader.bounds(Topic::Events, &partitions))
            .await
    }

    /// The ends of partitions; an error if one has lost its beginning.
    pub(crate) async fn ends_of_complete_log(
        &self,
        partitions: &[Partition],
    ) -> Result<PartitionMap<i64>, RebuildError> {
        let bounds = self.bounds(partitions.to_vec()).await?;
        if let Some((partition, bounds)) = bounds.iter().find(|(_, bounds)| bounds.start > 0) {
            return Err(RebuildError::LogStartDeleted {
                topic: self.topic.clone(),
                partition,
                start: bounds.start,
            });
        }
        let end = |(partition, bounds): (Partition, OffsetRange)| (partition, bounds.end);
        Ok(bounds.into_iter().map(end).collect())
    }
}
