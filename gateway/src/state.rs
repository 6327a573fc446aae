//! What all connections share.

use std::{
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use ingest::Poster;
use message_store::MessageStore;
use schemas::topics::Topic;
use service_runtime::Shutdown;

use crate::{
    config::{Config, GatewayConfig},
    hub::Hub,
};

pub(crate) struct Gateway {
    pub(crate) config: GatewayConfig,
    pub(crate) store: MessageStore,
    pub(crate) poster: Poster,
    /// The full name of `chat.events`, under which the sinks keep their offsets.
    pub(crate) events_topic: String,
    pub(crate) shutdown: Shutdown,
    /// Absent until it is known where to read from.
    hub: OnceLock<Mutex<Hub>>,
    connections: AtomicUsize,
    started: Instant,
}

/// A connection that counts, until it is dropped.
pub(crate) struct Place<'a>(&'a AtomicUsize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Gateway {
    pub(crate) fn new(config: &Config, poster: Poster, shutdown: Shutdown) -> Self {
        Self {
            store: MessageStore::connect(&config.mysql),
            events_topic: config.ingest.kafka.topic(Topic::Events),
            config: config.gateway.clone(),
            poster,
            shutdown,
            hub: OnceLock::new(),
            connections: AtomicUsize::new(0),
            started: Instant::now(),
        }
    }

    pub(crate) fn begin(&self, hub: Hub) {
        // There is one reader, which begins once.
        let _ = self.hub.set(Mutex::new(hub));
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

    /// Whether there may be another connection.
    pub(crate) fn has_place(&self) -> bool {
        self.connections.load(Ordering::Relaxed) < self.config.max_connections
    }

    /// `None` where there are as many connections as there may be.
    pub(crate) fn take_place(&self) -> Option<Place<'_>> {
        let place = Place(&self.connections);
        let before = self.connections.fetch_add(1, Ordering::Relaxed);
        (before < self.config.max_connections).then_some(place)
    }
}
