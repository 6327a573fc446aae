//! Reports unread counts that come from MySQL while Redis fails: a metric, and a log line at the beginning and at the end.

use std::sync::atomic::{AtomicBool, Ordering};

const WITHOUT_REDIS: &str = "tidemark_query_api_unread_without_redis_total";

/// Whether the newest counts came from MySQL.
#[derive(Debug, Default)]
pub(crate) struct RedisFallback(AtomicBool);

impl RedisFallback {
    pub(crate) fn new() -> Self {
        metrics::describe_counter!(
            WITHOUT_REDIS,
            "Unread counts read from MySQL because Redis failed"
        );
        Self::default()
    }

    pub(crate) fn redis_failed(&self, reason: &str) {
        metrics::counter!(WITHOUT_REDIS).increment(1);
        if !self.0.swap(true, Ordering::Relaxed) {
            tracing::warn!(reason, "unread counts come from the contact rows");
        }
    }

    pub(crate) fn redis_responded(&self) {
        // Read first: many calls at a time share this.
        if self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed) {
            tracing::info!("unread counts come from Redis again");
        }
    }
}
