//! Wires the query API together.

use std::sync::Arc;

use access::Access;
use axum::Router;
use event_log::LogReader;
use message_store::MessageStore;
use schemas::topics::Topic;
use service_runtime::{Health, Process, Supervisor, described};
use unread_rebuild::Rebuilder;
use unread_store::{Node, SharedConnection};

use crate::{
    config::Config,
    deadline::Deadline,
    epoch::CurrentEpoch,
    error::{Lag, LaggingStore, QueryError},
    inbound::ReaderPool,
    limits, openapi,
    readiness::HealthChecks,
    redis_fallback::RedisFallback,
    shared_polling::SharedPolling,
};

/// What all calls share.
pub(crate) struct QueryApi {
    pub(crate) store: MessageStore,
    polling: SharedPolling,
    pub(crate) redis: SharedConnection,
    pub(crate) redis_fallback: RedisFallback,
    pub(crate) rebuilder: Rebuilder,
    pub(crate) reader_pool: Arc<ReaderPool>,
    pub(crate) epoch: CurrentEpoch,
    /// The full name of `chat.events`, under which the sinks keep their offsets.
    pub(crate) events_topic: String,
    /// The full name of `chat.inbound`.
    pub(crate) inbound_topic: String,
}

/// Reads the configuration, starts and serves it on its own address: what a process of its own does.
///
/// # Errors
/// Configuration, the address, and those of [`start`].
pub async fn serve(process: &Process) -> anyhow::Result<()> {
    let config = process.configure(Config::load)?;
    let listen = config.query_api.listen;
    let (supervisor, health) = (process.supervisor(), process.health());
    let access = Access::start(&config.auth, supervisor)?;
    let api = start(config, &access, supervisor, health).await?;
    process
        .listen_with(&access, "query_api.listen", listen, api)
        .await?;
    Ok(())
}

/// Starts the query API and returns its calls behind `access`, without probes and middleware. Kafka, Redis and MySQL may be down: calls
/// that need them are then answered 503, and `/readyz` shows which are.
///
/// # Errors
/// Where librdkafka refuses a setting, or the URL of Redis cannot be used.
pub async fn start(
    config: Config,
    access: &Access,
    supervisor: &Supervisor,
    health: &Health,
) -> anyhow::Result<Router> {
    let log = Arc::new(LogReader::new(&config.kafka)?);
    let api = Arc::new(QueryApi::new(&config, &log)?);
    let checks = HealthChecks::new(Arc::clone(&api), log, health);
    supervisor.spawn("query readiness", checks.run(supervisor.shutdown()));
    let calls = limits::apply(openapi::calls(), &config.query_api);
    Ok(described(access.guard(calls), api))
}

impl QueryApi {
    fn new(config: &Config, log: &Arc<LogReader>) -> anyhow::Result<Self> {
        let events_topic = config.kafka.topic(Topic::Events);
        let store = MessageStore::connect(&config.mysql);
        let node = Node::new(&config.redis)?;
        let own = &config.query_api;
        Ok(Self {
            polling: SharedPolling::new(&store, &events_topic),
            rebuilder: Rebuilder::new(&store, log, &node, &events_topic, &own.rebuild),
            redis: SharedConnection::new(node),
            redis_fallback: RedisFallback::new(),
            reader_pool: ReaderPool::new(
                config.kafka.clone(),
                own.inbound_lookups,
                own.inbound_scan_records,
            ),
            epoch: CurrentEpoch::default(),
            inbound_topic: config.kafka.topic(Topic::Inbound),
            events_topic,
            store,
        })
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
