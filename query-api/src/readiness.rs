//! Whether the stores answer.
//!
//! MySQL and Kafka are gates of `/readyz`. Redis is none: without it every call is still answered, unread counts from MySQL. Whether it
//! is there is a metric.

use std::{sync::Arc, time::Duration};

use event_log::LogReader;
use service_runtime::{Health, ReadinessCheck, Shutdown};
use tokio::time::{sleep, timeout};

use crate::service::QueryApi;

const INTERVAL: Duration = Duration::from_secs(2);

/// After this long without an answer Redis counts as away.
const PATIENCE: Duration = Duration::from_secs(5);

const REDIS_UP: &str = "tidemark_query_api_redis_up";

/// Asks every store again and again.
pub(crate) struct Watch {
    api: Arc<QueryApi>,
    log: Arc<LogReader>,
    mysql: ReadinessCheck,
    kafka: ReadinessCheck,
}

impl Watch {
    pub(crate) fn new(api: Arc<QueryApi>, log: Arc<LogReader>, health: &Health) -> Self {
        metrics::describe_gauge!(REDIS_UP, "1 where Redis answers, otherwise 0");
        Self {
            api,
            log,
            mysql: health.check("query_api.mysql"),
            kafka: health.check("query_api.kafka"),
        }
    }

    /// Runs until the soft stage. The stores are asked side by side: one that hangs says nothing about another.
    pub(crate) async fn run(self, shutdown: Shutdown) -> anyhow::Result<()> {
        tokio::select! {
            _ = self.mysql.poll("MySQL", || self.ask_mysql()) => {}
            _ = self.kafka.poll("Kafka", || self.ask_kafka()) => {}
            () = self.watch_redis() => {}
            () = shutdown.soft().cancelled() => {}
        }
        Ok(())
    }

    async fn watch_redis(&self) {
        let up = metrics::gauge!(REDIS_UP);
        loop {
            let pinged = async { self.api.redis.get().await?.ping().await };
            let answers = matches!(timeout(PATIENCE, pinged).await, Ok(Ok(())));
            up.set(f64::from(u8::from(answers)));
            sleep(INTERVAL).await;
        }
    }

    async fn ask_mysql(&self) -> Result<(), String> {
        let pinged = self.api.store.ping().await;
        pinged.map_err(|error| error.to_string())
    }

    /// Beside the gate, this keeps the current epoch current: it has to be known before positions can be compared.
    async fn ask_kafka(&self) -> Result<(), String> {
        let (api, log) = (Arc::clone(&self.api), Arc::clone(&self.log));
        match tokio::task::spawn_blocking(move || api.epoch.look(&log)).await {
            Ok(looked) => looked.map_err(|fault| fault.to_string()),
            Err(panic) => Err(panic.to_string()),
        }
    }
}
