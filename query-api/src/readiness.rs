//! Health checks of the stores.
//!
//! MySQL and Kafka are gates of `/readyz`. Redis is not: without it the unread counts come from MySQL, and every call still succeeds. A
//! metric shows whether it responds.

use std::{sync::Arc, time::Duration};

use event_log::LogReader;
use futures::future::{join_all, try_join_all};
use message_store::{Shard, Sink};
use schemas::{Partition, PartitionMap};
use service_runtime::{Health, ReadinessCheck, Shutdown};
use tokio::time::{sleep, timeout};
use unread_store::Connection;

use crate::{stalls::Projection, state::QueryApi};

const INTERVAL: Duration = Duration::from_secs(2);

const TIMEOUT: Duration = Duration::from_secs(5);

const REDIS_UP: &str = "tidemark_query_api_redis_up";

/// Checks every store periodically.
pub(crate) struct HealthChecks {
    api: Arc<QueryApi>,
    log: Arc<LogReader>,
    mysql: ReadinessCheck,
    kafka: ReadinessCheck,
}

impl HealthChecks {
    pub(crate) fn new(api: Arc<QueryApi>, log: Arc<LogReader>, health: &Health) -> Self {
        metrics::describe_gauge! { REDIS_UP, "1 where Redis responds, all of a cluster's slots, otherwise 0" }
        Self {
            api,
            log,
            mysql: health.check("query_api.mysql"),
            kafka: health.check("query_api.kafka"),
        }
    }

    /// Runs until the soft stage of the shutdown. The checks are concurrent, so that a store that hangs does not delay another.
    pub(crate) async fn run(self, shutdown: Shutdown) -> anyhow::Result<()> {
        tokio::select! {
            _ = self.mysql.poll("MySQL", || self.check_mysql()) => {}
            _ = self.kafka.poll("Kafka", || self.check_kafka()) => {}
            () = self.check_redis() => {}
            () = self.watch_projections() => {}
            () = shutdown.soft().cancelled() => {}
        }
        Ok(())
    }

    async fn check_redis(&self) {
        let up = metrics::gauge!(REDIS_UP);
        loop {
            let slots = 0..self.api.redis.store().slots().len();
            let pings = slots.map(async |slot| self.api.redis.get(slot).await?.ping().await);
            let responds = matches!(timeout(TIMEOUT, try_join_all(pings)).await, Ok(Ok(_)));
            up.set(f64::from(u8::from(responds)));
            sleep(INTERVAL).await;
        }
    }

    /// If Kafka or a store does not answer, the other checks report it.
    async fn watch_projections(&self) {
        loop {
            if let Ok(ends) = self.api.log_ends.now().await {
                let slots = 0..self.api.redis.store().slots().len();
                join_all(slots.map(|slot| self.watch_slot(slot, &ends))).await;
                for shard in self.api.store.layout().shards() {
                    for sink in [Sink::Messages, Sink::Contacts] {
                        self.watch_rows(shard, sink, &ends).await;
                    }
                }
            }
            sleep(INTERVAL).await;
        }
    }

    async fn watch_slot(&self, slot: usize, ends: &PartitionMap<i64>) {
        let read = async |redis: Connection| redis.read_positions().await;
        let read = timeout(TIMEOUT, self.api.redis.call(slot, read)).await;
        if let Ok(Ok(stored)) = read {
            let positions = stored.iter().map(|(p, at)| (p, at.position.next));
            let projection = Projection::Unread(slot);
            self.api
                .stalls
                .observe(projection, &positions.collect(), ends);
        }
    }

    async fn watch_rows(&self, shard: Shard, sink: Sink, ends: &PartitionMap<i64>) {
        let (store, topic) = (&self.api.store, &self.api.events_topic);
        let partitions: Vec<Partition> = store.layout().source_partitions(sink, shard).collect();
        let read = store.read_resume_offsets(shard, sink, topic, &partitions);
        if let Ok(stored) = read.await {
            let positions = stored.iter().map(|(p, at)| (p, at.next));
            let projection = Projection::Rows(shard, sink);
            self.api
                .stalls
                .observe(projection, &positions.collect(), ends);
        }
    }

    async fn check_mysql(&self) -> Result<(), String> {
        let pinged = self.api.store.ping().await;
        pinged.map_err(|error| error.to_string())
    }

    /// Also updates the current epoch, which is needed to compare positions.
    async fn check_kafka(&self) -> Result<(), String> {
        let api = Arc::clone(&self.api);
        let read = self.log.blocking(move |log| api.epoch.read_from(log)).await;
        read.map_err(|error| error.to_string())
    }
}
