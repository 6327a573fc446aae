use std::{collections::BTreeMap, sync::Arc, time::Duration};

use event_log::LogReader;
use message_store::{Layout, MessageStore, Shard};
use schemas::{TableNumber, UserId};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout_at},
};
use unread_store::{SharedConnections, UnreadStore};

use crate::{
    ContactCounts, RebuildConfig, ShadowRebuild, UnreadRebuildError,
    barrier::Barrier,
    batch::{Context, Request},
    single_flight::SingleFlight,
    worker,
};

/// Rebuilds users in Redis from their contact rows. Clones share the workers, which end with the last clone.
#[derive(Clone)]
pub struct Rebuilder {
    layout: Layout,
    flight: Arc<SingleFlight>,
    redis: Arc<SharedConnections>,
    shards: Arc<BTreeMap<Shard, ShardHandle>>,
}

/// Sends requests to the worker of one database.
struct ShardHandle {
    requests: mpsc::UnboundedSender<Request>,
    barrier: Arc<Barrier>,
}

impl Rebuilder {
    /// Starts a worker for each database. Connects on first use. `topic` is the full name of `chat.events`.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    #[must_use]
    pub fn new(
        store: &MessageStore,
        log: &Arc<LogReader>,
        unread: &UnreadStore,
        topic: &str,
        config: &RebuildConfig,
    ) -> Self {
        let redis = Arc::new(SharedConnections::new(unread.clone()));
        let spawn = |shard| {
            let barrier = Barrier::new(store.clone(), Arc::clone(log), topic.to_owned(), shard);
            (shard, ShardHandle::spawn(barrier, &redis, config))
        };
        Self {
            layout: store.layout(),
            flight: Arc::default(),
            shards: Arc::new(store.layout().shards().map(spawn).collect()),
            redis: Arc::clone(&redis),
        }
    }

    /// Returns once each of `uids` has been complete at some moment since the call; a user may have been dropped again by then. A rebuild that is not
    /// complete at the deadline continues, and later callers join it.
    ///
    /// # Errors
    /// The error of the first user that failed, [`UnreadRebuildError::TimedOut`] at the deadline.
    pub async fn rebuild(
        &self,
        uids: &[UserId],
        deadline: Instant,
    ) -> Result<(), UnreadRebuildError> {
        let mut waiters = Vec::with_capacity(uids.len());
        for uid in uids {
            let (waiter, pending) = self.flight.join(*uid);
            if let Some(pending) = pending {
                self.shard(*uid).send(Request::Rebuild(pending));
            }
            waiters.push((*uid, waiter));
        }
        for (uid, waiter) in waiters {
            timeout_at(deadline, waiter.outcome())
                .await
                .unwrap_or_else(|_elapsed| Err(self.shard(uid).barrier.timeout_reason()))?;
        }
        Ok(())
    }

    /// A user's counts from the contact rows alone, with at least all events that were on the log at the call. For use while Redis does
    /// not respond.
    ///
    /// # Errors
    /// [`UnreadRebuildError::TimedOut`] at the deadline, otherwise the error of MySQL or Kafka.
    pub async fn contact_counts(
        &self,
        uid: UserId,
        deadline: Instant,
    ) -> Result<ContactCounts, UnreadRebuildError> {
        let shard = self.shard(uid);
        let (response, counts) = oneshot::channel();
        shard.send(Request::Count(uid, response));
        match timeout_at(deadline, counts).await {
            Ok(Ok(counts)) => counts,
            Ok(Err(_dropped)) => Err(UnreadRebuildError::Transient(
                "the worker has ended".to_owned(),
            )),
            Err(_elapsed) => Err(shard.barrier.timeout_reason()),
        }
    }

    /// Begins to rebuild users of one table, including complete ones: see [`ShadowRebuild`]. Users that are not done within `lease_ms` stay as they
    /// were, or are rebuilt by other processes.
    ///
    /// # Errors
    /// [`UnreadRebuildError`]; rebuilds that have begun keep their lease until it expires.
    pub async fn begin_shadow_rebuild(
        &self,
        n: TableNumber,
        uids: &[UserId],
        lease_ms: u64,
    ) -> Result<ShadowRebuild, UnreadRebuildError> {
        let barrier = Arc::clone(&self.shards[&self.layout.shard_of(n)].barrier);
        let deadline = Instant::now() + Duration::from_millis(lease_ms);
        ShadowRebuild::begin(Arc::clone(&self.redis), barrier, uids, lease_ms, deadline).await
    }

    fn shard(&self, uid: UserId) -> &ShardHandle {
        &self.shards[&self.layout.shard_of_user(uid)]
    }
}

impl ShardHandle {
    fn spawn(barrier: Barrier, redis: &Arc<SharedConnections>, config: &RebuildConfig) -> Self {
        let barrier = Arc::new(barrier);
        // Bounded by the callers: there is at most one rebuild per user, and one count per caller.
        let (requests, queue) = mpsc::unbounded_channel();
        let context = Context {
            config: config.clone(),
            redis: Arc::clone(redis),
            barrier: Arc::clone(&barrier),
            requests: requests.downgrade(),
        };
        tokio::spawn(worker::serve(Arc::new(context), queue));
        Self { requests, barrier }
    }

    fn send(&self, request: Request) {
        // If the worker has ended, the request is dropped, and its waiters get an error.
        let _ = self.requests.send(request);
    }
}
