//! What all connections share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use access::CallerQuota;
use event_log::{KafkaConfig, LogEnds, LogReader};
use message_store::MessageStore;
use parking_lot::{Mutex, MutexGuard};
use posting::Poster;
use schemas::PartitionMap;
use service_runtime::Shutdown;
use tokio::sync::watch;
use unread_store::{SharedConnections, UnreadError, UnreadStore};

use crate::{
    config::{Config, GatewayConfig},
    contacts::Contacts,
    devices::Devices,
    dissolved_groups::DissolvedGroups,
    focus::Focus,
    hub::{Connection, DeviceOf, Hub},
    memberships,
    presence::Presence,
    rates::Rates,
    shared_reads::SharedReads,
    typing::Typing,
};

pub(crate) struct Gateway {
    pub(crate) config: GatewayConfig,
    pub(crate) kafka: KafkaConfig,
    pub(crate) store: MessageStore,
    pub(crate) poster: Poster,
    pub(crate) log_ends: LogEnds,
    pub(crate) redis: Arc<SharedConnections>,
    pub(crate) devices: Devices,
    pub(crate) membership_turns: memberships::Turns,
    pub(crate) contacts: Arc<Contacts>,
    pub(crate) focus: Arc<Focus>,
    pub(crate) typing: Arc<Typing>,
    pub(crate) presence: Arc<Presence>,
    pub(crate) rates: Rates,
    pub(crate) shutdown: Shutdown,
    /// Until it is known where to read from, an empty hub without connections.
    hub: Mutex<Hub>,
    is_reading: AtomicBool,
    connections: watch::Sender<usize>,
    /// The connections that one user may have, with a stream or without.
    pub(crate) places: Arc<CallerQuota>,
    next_connection: AtomicU64,
    started: Instant,
}

/// A connection that counts, until it is dropped.
pub(crate) struct ConnectionPermit<'a>(&'a watch::Sender<usize>);

impl Drop for ConnectionPermit<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Gateway {
    /// # Errors
    /// The URL or the files for TLS of Redis cannot be used.
    pub(crate) fn new(
        config: &Config,
        poster: Poster,
        log: Arc<LogReader>,
        shutdown: Shutdown,
    ) -> Result<Self, UnreadError> {
        let redis = Arc::new(SharedConnections::new(UnreadStore::new(&config.redis)?));
        let store = MessageStore::connect(&config.mysql);
        let reads = Arc::new(SharedReads::new(store.clone(), &config.mysql));
        let contacts = Arc::new(Contacts::new(Arc::clone(&reads)));
        let dissolved = DissolvedGroups::new(reads);
        let typing = Typing::new(Arc::clone(&redis), Arc::clone(&contacts), dissolved);
        let focus = Arc::new(Focus::default());
        let presence = {
            let (redis, contacts) = (Arc::clone(&redis), Arc::clone(&contacts));
            Presence::new(&config.gateway, redis, contacts, Arc::clone(&focus))
        };
        let limits = config.gateway.limits(poster.config().request_deadline());
        Ok(Self {
            store,
            redis,
            contacts,
            focus,
            typing: Arc::new(typing),
            presence: Arc::new(presence),
            devices: Devices::new(2 * config.gateway.max_connections),
            membership_turns: memberships::Turns::default(),
            rates: Rates::new(&config.gateway),
            kafka: config.kafka.clone(),
            config: config.gateway.clone(),
            poster,
            log_ends: LogEnds::new(log),
            shutdown,
            hub: Mutex::new(Hub::new(limits, 0, &PartitionMap::new())),
            is_reading: AtomicBool::new(false),
            connections: watch::Sender::new(0),
            places: CallerQuota::new(usize::MAX, config.gateway.max_connections_of_user()),
            next_connection: AtomicU64::new(0),
            started: Instant::now(),
        })
    }

    /// The hub of the logs that are read from now on.
    pub(crate) fn start_hub(&self, hub: Hub) {
        *self.hub() = hub;
    }

    /// Takes connections.
    pub(crate) fn open(&self) {
        self.is_reading.store(true, Ordering::Release);
    }

    /// Whether the gateway has begun to read. Before that no connection is taken, so a connection does not ask.
    pub(crate) fn is_reading(&self) -> bool {
        self.is_reading.load(Ordering::Acquire)
    }

    /// The connection of a device that has said hello.
    pub(crate) fn connection(&self, of: DeviceOf) -> Connection {
        let number = self.next_connection.fetch_add(1, Ordering::Relaxed);
        Connection::new(of, number, self.config.queue_bytes)
    }

    pub(crate) fn hub(&self) -> MutexGuard<'_, Hub> {
        self.hub.lock()
    }

    /// Milliseconds since the start, by a clock that does not jump.
    pub(crate) fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    pub(crate) fn now_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    pub(crate) fn connection_count(&self) -> usize {
        *self.connections.borrow()
    }

    /// `None` if there are as many connections as there may be.
    pub(crate) fn connection_permit(&self) -> Option<ConnectionPermit<'_>> {
        let is_permitted = self.connections.send_if_modified(|count| {
            let is_permitted = *count < self.config.max_connections;
            *count += usize::from(is_permitted);
            is_permitted
        });
        is_permitted.then(|| ConnectionPermit(&self.connections))
    }

    /// Waits until the gateway ends and there is no connection any more.
    pub(crate) async fn all_closed_at_shutdown(&self) {
        self.shutdown.soft().cancelled().await;
        self.all_closed().await;
    }

    /// Waits until there is no connection.
    pub(crate) async fn all_closed(&self) {
        // The sender lives as long as the gateway does.
        let _ = self
            .connections
            .subscribe()
            .wait_for(|count| *count == 0)
            .await;
    }
}
