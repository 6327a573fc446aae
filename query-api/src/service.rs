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
    error::{Lagging, LaggingStore, QueryError},
    inbound::Readers,
    limits, openapi,
    readiness::Watch,
    shared_looks::SharedLooks,
    without_redis::WithoutRedis,
};

/// What all calls share.
pub(crate) struct QueryApi {
    pub(crate) store: MessageStore,
    looks: SharedLooks,
    pub(crate) redis: SharedConnection,
    pub(crate) without_redis: WithoutRedis,
    pub(crate) rebuilder: Rebuilder,
    pub(crate) readers: Arc<Readers>,
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

/// Starts the query API and returns its calls behind `access`, without probes and middleware. Kafka, Redis and MySQL may be away: calls that need them are
/// then answered 503, and `/readyz` says what is missing.
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
    let watch = Watch::new(Arc::clone(&api), log, health);
    supervisor.spawn("query readiness", watch.run(supervisor.shutdown()));
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
            looks: SharedLooks::new(&store, &events_topic),
            rebuilder: Rebuilder::new(&store, log, &node, &events_topic, &own.rebuild),
            redis: SharedConnection::new(node),
            without_redis: WithoutRedis::new(),
            readers: Readers::new(
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

    /// Repeats `attempt` until it does not lag any more; before a repetition, whatever lagged has been seen to have come on.
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
        deadline
            .poll(attempt, |lagging| self.come_on(lagging))
            .await
    }

    async fn come_on(&self, lagging: Lagging) -> Result<(), QueryError> {
        if let LaggingStore::Sink(shard, sink) = lagging.store {
            self.looks.reached(shard, sink, &lagging.needed).await?;
        }
        Ok(())
    }
}
