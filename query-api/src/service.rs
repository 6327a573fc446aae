//! Wires the query API together.

use std::sync::Arc;

use axum::Router;
use event_log::LogReader;
use message_store::MessageStore;
use schemas::topics::Topic;
use service_runtime::{Health, Process, Supervisor, described};
use unread_rebuild::Rebuilder;
use unread_store::{Node, SharedConnection};

use crate::{
    config::Config, epoch::CurrentEpoch, inbound::Readers, limits, openapi, readiness::Watch,
    without_redis::WithoutRedis,
};

/// What all calls share.
pub(crate) struct QueryApi {
    pub(crate) store: MessageStore,
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
    let listen = ("query_api.listen", |config: &Config| {
        config.query_api.listen
    });
    process.run(Config::load, listen, start).await
}

/// Starts the query API and returns its calls, without probes and middleware. Kafka, Redis and MySQL may be away: calls that need them are
/// then answered 503, and `/readyz` says what is missing.
///
/// # Errors
/// Where librdkafka refuses a setting, or the URL of Redis cannot be used.
pub async fn start(
    config: Config,
    supervisor: &Supervisor,
    health: &Health,
) -> anyhow::Result<Router> {
    let log = Arc::new(LogReader::new(&config.kafka)?);
    let api = Arc::new(QueryApi::new(&config, &log)?);
    let watch = Watch::new(Arc::clone(&api), log, health);
    supervisor.spawn("query readiness", watch.run(supervisor.shutdown()));
    Ok(limits::apply(
        described(openapi::calls(), api),
        config.query_api.max_requests,
    ))
}

impl QueryApi {
    fn new(config: &Config, log: &Arc<LogReader>) -> anyhow::Result<Self> {
        let events_topic = config.kafka.topic(Topic::Events);
        let store = MessageStore::connect(&config.mysql);
        let node = Node::new(&config.redis)?;
        let own = &config.query_api;
        Ok(Self {
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
}
