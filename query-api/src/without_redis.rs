//! Answers without Redis: a count of them, and a line in the log when they begin and when they end.

use std::sync::atomic::{AtomicBool, Ordering};

/// How many unread counts were answered from MySQL because Redis was of no help.
const WITHOUT_REDIS: &str = "tidemark_query_api_unread_without_redis_total";

/// Whether the newest answer was one without Redis.
#[derive(Debug, Default)]
pub(crate) struct WithoutRedis(AtomicBool);

impl WithoutRedis {
    /// Notes nothing yet.
    pub(crate) fn new() -> Self {
        metrics::describe_counter!(
            WITHOUT_REDIS,
            "Unread counts answered from MySQL because Redis was of no help"
        );
        Self::default()
    }

    /// Notes that Redis was of no help.
    pub(crate) fn begin(&self, reason: &str) {
        metrics::counter!(WITHOUT_REDIS).increment(1);
        if !self.0.swap(true, Ordering::Relaxed) {
            tracing::warn!(reason, "unread counts come from the contact rows");
        }
    }

    /// Notes that Redis answered.
    pub(crate) fn end(&self) {
        // Read first: many calls at a time share this.
        if self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed) {
            tracing::info!("unread counts come from Redis again");
        }
    }
}
