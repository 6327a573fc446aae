use std::time::{Instant, SystemTime, UNIX_EPOCH};

use metrics::{Counter, Histogram, Unit};

use crate::batch::Batch;

const EVENTS: &str = "tidemark_unread_events_applied_total";
const BATCHES: &str = "tidemark_unread_batches_applied_total";
const FAILURES: &str = "tidemark_unread_batch_failures_total";
const SECONDS: &str = "tidemark_unread_batch_seconds";
const DELAY: &str = "tidemark_unread_event_delay_seconds";
const ABSENT: &str = "tidemark_unread_users_absent_total";

pub(crate) struct SinkMetrics {
    events: Counter,
    batches: Counter,
    failures: Counter,
    seconds: Histogram,
    delay: Histogram,
    absent: Counter,
}

impl SinkMetrics {
    pub(crate) fn new() -> Self {
        metrics::describe_counter! { EVENTS, "Events applied to Redis, including those applied again after a rewind" }
        metrics::describe_counter! { BATCHES, "Batches applied to Redis with their positions" }
        metrics::describe_counter! { FAILURES, "Batches that failed and were retried or read again" }
        metrics::describe_histogram! { SECONDS, Unit::Seconds, "Time to apply a batch" }
        metrics::describe_histogram! { DELAY, Unit::Seconds, "Time from the append of a batch's oldest event to chat.inbound until it is in Redis" }
        metrics::describe_counter! { ABSENT, "Events whose user had no state hash in Redis, so that a rebuild was requested" }
        metrics::describe_counter! { "tidemark_unread_rebuilds_total", "Rebuilds that ended, by outcome" }
        metrics::describe_histogram! { "tidemark_unread_rebuild_seconds", Unit::Seconds, "Time from the request of a user's rebuild to its end" }
        Self {
            events: metrics::counter!(EVENTS),
            batches: metrics::counter!(BATCHES),
            failures: metrics::counter!(FAILURES),
            seconds: metrics::histogram!(SECONDS),
            delay: metrics::histogram!(DELAY),
            absent: metrics::counter!(ABSENT),
        }
    }

    pub(crate) fn applied(&self, batch: &Batch, begun: Instant, absent: usize) {
        self.events.increment(batch.events());
        self.batches.increment(1);
        self.seconds.record(begun.elapsed());
        self.absent.increment(absent as u64);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        if let (Some(oldest), Ok(now)) = (batch.oldest(), now) {
            let then = std::time::Duration::from_millis(oldest.0.max(0).unsigned_abs());
            self.delay.record(now.saturating_sub(then));
        }
    }

    pub(crate) fn failed(&self) {
        self.failures.increment(1);
    }
}
