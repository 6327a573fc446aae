//! Reports unread counts that come from MySQL while Redis fails, or one of its slots: a metric, and a log line at the beginning and at the
//! end.

use std::sync::atomic::{AtomicBool, Ordering};

const WITHOUT_REDIS: &str = "tidemark_query_api_unread_without_redis_total";

/// Whether the newest counts of the users of each slot came from MySQL.
#[derive(Debug)]
pub(crate) struct RedisFallback(Vec<AtomicBool>);

impl RedisFallback {
    pub(crate) fn new(slots: usize) -> Self {
        metrics::describe_counter! { WITHOUT_REDIS, "Unread counts read from MySQL because Redis failed" }
        Self((0..slots).map(|_| AtomicBool::new(false)).collect())
    }

    pub(crate) fn redis_failed(&self, slot: usize, reason: &str) {
        metrics::counter!(WITHOUT_REDIS).increment(1);
        if !self.0[slot].swap(true, Ordering::Relaxed) {
            tracing::warn!(slot, reason, "unread counts come from the contact rows");
        }
    }

    pub(crate) fn redis_responded(&self, slot: usize) {
        // Loaded before the swap, since many calls at a time share this flag.
        if self.0[slot].load(Ordering::Relaxed) && self.0[slot].swap(false, Ordering::Relaxed) {
            tracing::info!(slot, "unread counts come from Redis again");
        }
    }
}
