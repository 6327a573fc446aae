//! What all calls share.

use std::sync::Arc;

use event_log::{LogEnds, LogReader};
use message_store::{MessageStore, Shard, Sink, StoreError};
use schemas::{Partition, topics::Topic};
use unread_rebuild::Rebuilder;
use unread_store::{SharedConnections, UnreadStore};

use crate::{
    config::Config,
    deadline::Deadline,
    epoch::CurrentEpoch,
    error::{Lag, LaggingStore, QueryError},
    inbound::ReaderPool,
    large_reads::LargeReads,
    redis_fallback::RedisFallback,
    shared_polling::SharedPolling,
};

pub(crate) struct QueryApi {
    pub(crate) store: MessageStore,
    polling: SharedPolling,
    pub(crate) redis: Arc<SharedConnections>,
    pub(crate) large_reads: Arc<LargeReads>,
    pub(crate) redis_fallback: RedisFallback,
    pub(crate) rebuilder: Rebuilder,
    pub(crate) reader_pool: Arc<ReaderPool>,
    pub(crate) epoch: CurrentEpoch,
    pub(crate) log_ends: LogEnds,
    /// The full name of `chat.events`, under which the sinks keep their offsets.
    pub(crate) events_topic: String,
    /// The full name of `chat.inbound`.
    pub(crate) inbound_topic: String,
}

impl QueryApi {
    pub(crate) fn new(config: &Config, log: &Arc<LogReader>) -> anyhow::Result<Self> {
        let events_topic = config.kafka.topic(Topic::Events);
        let store = MessageStore::connect(&config.mysql);
        let unread = UnreadStore::new(&config.redis)?;
        let own = &config.query_api;
        let redis = Arc::new(SharedConnections::new(unread.clone()));
        Ok(Self {
            polling: SharedPolling::new(&store, &events_topic),
            rebuilder: Rebuilder::new(&store, log, &unread, &events_topic, &own.rebuild),
            redis_fallback: RedisFallback::new(unread.slots().len()),
            large_reads: LargeReads::new(&redis),
            redis,
            reader_pool: ReaderPool::new(
                config.kafka.clone(),
                own.inbound_lookups,
                own.inbound_scan_records,
            ),
            epoch: CurrentEpoch::default(),
            log_ends: LogEnds::new(Arc::clone(log)),
            inbound_topic: config.kafka.topic(Topic::Inbound),
            events_topic,
            store,
        })
    }

    /// The current epoch. Right after the start, and as long as Kafka is away, it is that of a database.
    pub(crate) async fn current_epoch(&self, shard: Shard) -> Result<u32, StoreError> {
        if !self.epoch.is_read() {
            let all: Vec<Partition> = Partition::all().collect();
            let positions =
                self.store
                    .read_resume_offsets(shard, Sink::Contacts, &self.events_topic, &all);
            for position in positions.await?.values() {
                self.epoch.raise(position.watermark.epoch);
            }
        }
        Ok(self.epoch.get())
    }

    /// Repeats `attempt` until no store lags, and waits for the store that lags before each repetition.
    ///
    /// # Errors
    /// As [`Deadline::poll`].
    pub(crate) async fn poll<T, F>(
        &self,
        deadline: Deadline,
        attempt: impl Fn() -> F,
    ) -> Result<T, QueryError>
    where
        F: Future<Output = Result<T, QueryError>>,
    {
        deadline.poll(attempt, |lag| self.catch_up(lag)).await
    }

    /// Waits until a MySQL sink has caught up; Redis is simply read again.
    async fn catch_up(&self, lag: Lag) -> Result<(), QueryError> {
        if let LaggingStore::Sink(shard, sink) = lag.store {
            self.polling.reached(shard, sink, &lag.missing).await?;
        }
        Ok(())
    }
}
