//! Projections that answer reads and no longer move while the log does: a Redis that is full, a database that takes no writes, a projector that has
//! halted. Such a store returns old data, and nothing else shows it.

use std::{collections::BTreeMap, fmt, time::Duration};

use message_store::{Shard, Sink};
use parking_lot::Mutex;
use schemas::{NextOffset, Partition, PartitionMap};
use tokio::time::Instant;

const STALLED_SECONDS: &str = "tidemark_query_api_stalled_seconds";

/// A projection in one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Projection {
    /// In a slot of Redis.
    Unread(usize),
    Rows(Shard, Sink),
}

impl fmt::Display for Projection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unread(slot) => write!(f, "unread, slot {slot} of Redis"),
            Self::Rows(shard, sink) => write!(f, "{sink:?}, database {}", shard.get()),
        }
    }
}

/// How long each projection has not moved.
pub(crate) struct Stalls {
    /// After this time a projection is stalled.
    bound: Duration,
    projections: Mutex<BTreeMap<Projection, Watched>>,
}

#[derive(Default)]
struct Watched {
    /// The position of a partition while the log has more, and since when it is there.
    behind: PartitionMap<(NextOffset, Instant)>,
    is_stalled: bool,
}

impl Stalls {
    pub(crate) fn new(bound: Duration) -> Self {
        metrics::describe_gauge! { STALLED_SECONDS, "For how long a projection has not moved while the log did: that of its partition that stands still for longest" }
        Self {
            bound,
            projections: Mutex::default(),
        }
    }

    /// Compares the positions of a projection with `ends`, the ends of the log before the positions were read.
    pub(crate) fn observe(
        &self,
        projection: Projection,
        positions: &PartitionMap<NextOffset>,
        ends: &PartitionMap<i64>,
    ) {
        let now = Instant::now();
        let mut projections = self.projections.lock();
        let watched = projections.entry(projection).or_default();
        for (partition, next) in positions.iter() {
            watched.observe(partition, *next, ends, now);
        }
        let stalled = watched.stalled_for(now);
        let gauge = metrics::gauge!(STALLED_SECONDS, "projection" => projection.to_string());
        gauge.set(stalled.as_secs_f64());
        let is_stalled = stalled >= self.bound;
        match (watched.is_stalled, is_stalled) {
            (false, true) => tracing::warn!(%projection, "does not move while the log does"),
            (true, false) => tracing::info!(%projection, "moves again"),
            _ => {}
        }
        watched.is_stalled = is_stalled;
    }

    pub(crate) fn is_stalled(&self, projection: Projection) -> bool {
        let projections = self.projections.lock();
        projections
            .get(&projection)
            .is_some_and(|watched| watched.is_stalled)
    }
}

impl Watched {
    fn observe(
        &mut self,
        partition: Partition,
        next: NextOffset,
        ends: &PartitionMap<i64>,
        now: Instant,
    ) {
        if ends.get(partition).is_none_or(|end| next.get() >= *end) {
            self.behind.remove(partition);
            return;
        }
        let known = self.behind.get_or_insert_with(partition, || (next, now));
        if known.0 != next {
            *known = (next, now);
        }
    }

    fn stalled_for(&self, now: Instant) -> Duration {
        let since = self.behind.values().map(|(_, since)| *since).min();
        since.map_or(Duration::ZERO, |since| now - since)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const OF: Projection = Projection::Unread(0);

    fn observe(stalls: &Stalls, next: [i64; 2], ends: [i64; 2]) {
        let all = || Partition::all().take(2);
        let next = all().zip(next.map(NextOffset::new)).collect();
        stalls.observe(OF, &next, &all().zip(ends).collect());
    }

    #[tokio::test(start_paused = true)]
    async fn what_stands_still_while_the_log_has_more_is_stalled() {
        let stalls = Stalls::new(Duration::from_secs(30));
        observe(&stalls, [5, 5], [5, 9]);
        advance(Duration::from_secs(29)).await;
        // One partition moves, the other does not.
        observe(&stalls, [6, 5], [7, 9]);
        assert!(!stalls.is_stalled(OF));
        advance(Duration::from_secs(1)).await;
        observe(&stalls, [7, 5], [7, 9]);
        assert!(stalls.is_stalled(OF));
        observe(&stalls, [7, 6], [7, 9]);
        assert!(!stalls.is_stalled(OF), "it moves again");
        advance(Duration::from_secs(300)).await;
        observe(&stalls, [7, 9], [7, 9]);
        assert!(!stalls.is_stalled(OF), "there is nothing to do");
    }
}
