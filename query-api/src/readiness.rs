//! Whether the stores answer.
//!
//! MySQL and Kafka are gates of `/readyz`. Redis is none: without it every call is still answered, unread counts from MySQL. Whether it
//! is there is a metric.

use std::{sync::Arc, time::Duration};

use event_log::LogReader;
use service_runtime::{Gate, Health, Shutdown};
use tokio::time::{sleep, timeout};

use crate::service::QueryApi;

const INTERVAL: Duration = Duration::from_secs(2);

/// After this long without an answer a store counts as away.
const PATIENCE: Duration = Duration::from_secs(5);

const REDIS_UP: &str = "query_api_redis_up";

/// Asks every store again and again.
pub(crate) struct Watch {
    api: Arc<QueryApi>,
    log: Arc<LogReader>,
    mysql: Gate,
    kafka: Gate,
}

impl Watch {
    pub(crate) fn new(api: Arc<QueryApi>, log: Arc<LogReader>, health: &Health) -> Self {
        metrics::describe_gauge!(REDIS_UP, "1 where Redis answers, otherwise 0");
        Self {
            api,
            log,
            mysql: health.gate("query_api.mysql"),
            kafka: health.gate("query_api.kafka"),
        }
    }

    /// Runs until the soft stage. The stores are asked side by side: one that hangs says nothing about another.
    pub(crate) async fn run(self, shutdown: Shutdown) -> anyhow::Result<()> {
        tokio::select! {
            () = self.watch_mysql() => {}
            () = self.watch_redis() => {}
            () = self.watch_kafka() => {}
            () = shutdown.soft().cancelled() => {}
        }
        Ok(())
    }

    async fn watch_mysql(&self) {
        loop {
            match timeout(PATIENCE, self.api.store.ping()).await {
                Ok(Ok(())) => self.mysql.ready(),
                Ok(Err(error)) => self.mysql.not_ready(error.to_string()),
                Err(_elapsed) => self.mysql.not_ready("MySQL does not answer"),
            }
            sleep(INTERVAL).await;
        }
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

    /// Beside the gate, this keeps the current epoch current: it has to be known before positions can be compared.
    async fn watch_kafka(&self) {
        loop {
            let (api, log) = (Arc::clone(&self.api), Arc::clone(&self.log));
            let mut looking = tokio::task::spawn_blocking(move || api.epoch.look(&log));
            let looked = match timeout(PATIENCE, &mut looking).await {
                Ok(looked) => looked,
                Err(_elapsed) => {
                    self.kafka.not_ready("Kafka does not answer");
                    // One that is late is waited for: another would only add a blocked thread.
                    looking.await
                }
            };
            match looked {
                Ok(Ok(())) => self.kafka.ready(),
                Ok(Err(fault)) => self.kafka.not_ready(fault.to_string()),
                Err(panic) => self.kafka.not_ready(panic.to_string()),
            }
            sleep(INTERVAL).await;
        }
    }
}
