//! The state that all calls share.

use std::{future::pending, sync::Arc, time::Duration};

use access::CallerQuota;
use event_log::{LogEnds, LogReader};
use futures::future::try_join;
use message_store::{MessageStore, MySqlConfig, Shard, Sink, StoreError};
use schemas::{Partition, topics::Topic};
use unread_rebuild::Rebuilder;
use unread_store::{SharedConnections, UnreadStore};

use crate::{
    after::RequiredWatermarks,
    config::Config,
    epoch::CurrentEpoch,
    error::{Lag, LaggingStore, QueryError},
    inbound::ReaderPool,
    large_reads::LargeReads,
    redis_fallback::RedisFallback,
    shared_polling::SharedPolling,
    stalls::Stalls,
};

pub(crate) struct QueryApi {
    pub(crate) store: MessageStore,
    polling: SharedPolling,
    pub(crate) redis: Arc<SharedConnections>,
    pub(crate) large_reads: Arc<LargeReads>,
    pub(crate) redis_fallback: RedisFallback,
    pub(crate) stalls: Stalls,
    pub(crate) rebuilder: Rebuilder,
    pub(crate) reader_pool: Arc<ReaderPool>,
    pub(crate) epoch: CurrentEpoch,
    /// The connections to each database server; the calls of one user have a quarter of them at most.
    pub(crate) connections: Vec<Arc<CallerQuota>>,
    pub(crate) log_ends: LogEnds,
    inbound_ends: LogEnds,
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
            stalls: Stalls::new(Duration::from_millis(own.stalled_after_ms)),
            redis,
            reader_pool: ReaderPool::new(
                config.kafka.clone(),
                own.inbound_lookups,
                own.inbound_scan_records,
            ),
            epoch: CurrentEpoch::default(),
            connections: connections(&config.mysql),
            log_ends: LogEnds::new(Arc::clone(log)),
            inbound_ends: LogEnds::of(Arc::clone(log), Topic::Inbound),
            inbound_topic: config.kafka.topic(Topic::Inbound),
            events_topic,
            store,
        })
    }

    /// The current epoch. Right after the start, and as long as Kafka is away, it is the epoch that a database has.
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

    /// Returns once it is known that the log lacks something that is required: no store will ever have that.
    pub(crate) async fn log_lacks(&self, required: &RequiredWatermarks) -> QueryError {
        let (inbound, events) = (required.least_inbound_ends(), required.least_events_ends());
        let lacking = try_join(
            self.inbound_ends.lacking(&inbound),
            self.log_ends.lacking(&events),
        );
        match lacking.await {
            Ok((inbound, events)) if inbound.is_empty() && events.is_empty() => {}
            Ok((inbound, events)) => {
                let is_lacking = |p| inbound.contains(&p) || events.contains(&p);
                return QueryError::NotOnTheLog(required.clone().restrict_to(is_lacking));
            }
            Err(error) => tracing::debug!(%error, "where the log ends is not known"),
        }
        pending().await
    }

    /// Waits until a MySQL sink has caught up; for Redis it returns at once.
    pub(crate) async fn catch_up(&self, lag: Lag) -> Result<(), QueryError> {
        if let LaggingStore::Sink(shard, sink) = lag.store {
            self.polling.reached(shard, sink, &lag.missing).await?;
        }
        Ok(())
    }
}

fn connections(mysql: &MySqlConfig) -> Vec<Arc<CallerQuota>> {
    let places = |_server| CallerQuota::of_quarters(mysql.connections_per_server as usize);
    mysql.servers.iter().map(places).collect()
}
