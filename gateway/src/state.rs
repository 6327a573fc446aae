//! What all connections share.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use event_log::{LogEnds, LogReader};
use ingest::Poster;
use message_store::MessageStore;
use schemas::topics::Topic;
use service_runtime::Shutdown;
use tokio::sync::watch;
use unread_store::{SharedConnections, UnreadError, UnreadStore};

use crate::{
    config::{Config, GatewayConfig},
    contacts::Contacts,
    devices::Devices,
    focus::Focus,
    frames::Format,
    hub::{Connection, DeviceOf, Hub},
    presence::Presence,
    rates::Rates,
    typing::Typing,
};

pub(crate) struct Gateway {
    pub(crate) config: GatewayConfig,
    pub(crate) store: MessageStore,
    pub(crate) poster: Poster,
    pub(crate) log_ends: LogEnds,
    pub(crate) redis: SharedConnections,
    pub(crate) devices: Devices,
    pub(crate) contacts: Contacts,
    pub(crate) focus: Focus,
    pub(crate) typing: Typing,
    pub(crate) presence: Presence,
    pub(crate) rates: Rates,
    /// The full name of `chat.events`, under which the sinks keep their offsets.
    pub(crate) events_topic: String,
    /// The full name of `chat.inbound`, which dead letters name.
    pub(crate) inbound_topic: String,
    pub(crate) shutdown: Shutdown,
    /// Absent until it is known where to read from.
    hub: OnceLock<Mutex<Hub>>,
    connections: watch::Sender<usize>,
    next_connection: AtomicU64,
    started: Instant,
}

/// A connection that counts, until it is dropped.
pub(crate) struct Place<'a>(&'a watch::Sender<usize>);

impl Drop for Place<'_> {
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
        let kafka = &config.ingest.kafka;
        let redis = UnreadStore::new(&config.redis)?;
        Ok(Self {
            store: MessageStore::connect(&config.mysql),
            presence: Presence::new(redis.slots().len()),
            redis: SharedConnections::new(redis),
            contacts: Contacts::default(),
            focus: Focus::default(),
            typing: Typing::default(),
            devices: Devices::new(2 * config.gateway.max_connections),
            rates: Rates::new(&config.gateway),
            events_topic: kafka.topic(Topic::Events),
            inbound_topic: kafka.topic(Topic::Inbound),
            config: config.gateway.clone(),
            poster,
            log_ends: LogEnds::new(log),
            shutdown,
            hub: OnceLock::new(),
            connections: watch::Sender::new(0),
            next_connection: AtomicU64::new(0),
            started: Instant::now(),
        })
    }

    pub(crate) fn begin(&self, hub: Hub) {
        // There is one reader, which begins once.
        let _ = self.hub.set(Mutex::new(hub));
    }

    /// The connection of a device that has said hello.
    pub(crate) fn connection(&self, of: DeviceOf, format: Format) -> Connection {
        let number = self.next_connection.fetch_add(1, Ordering::Relaxed);
        Connection::new(of, number, format, self.config.queue_bytes)
    }

    /// `None` before the gateway has begun to read.
    pub(crate) fn hub(&self) -> Option<MutexGuard<'_, Hub>> {
        let hub = self.hub.get()?;
        Some(hub.lock().unwrap_or_else(PoisonError::into_inner))
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

    /// `None` where there are as many connections as there may be.
    pub(crate) fn take_place(&self) -> Option<Place<'_>> {
        let is_taken = self.connections.send_if_modified(|count| {
            let has_place = *count < self.config.max_connections;
            *count += usize::from(has_place);
            has_place
        });
        is_taken.then(|| Place(&self.connections))
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
