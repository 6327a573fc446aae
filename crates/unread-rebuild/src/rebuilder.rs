use std::{collections::BTreeMap, sync::Arc, time::Duration};

use event_log::LogReader;
use message_store::{Layout, MessageStore, Shard};
use schemas::{TableNumber, UserId};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout_at},
};
use unread_store::{Node, SharedConnection};

use crate::{
    Anew, ContactCounts, RebuildConfig, UnreadRebuildError,
    barrier::Barrier,
    flights::Flights,
    worker::{self, Request, Tools},
};

/// Rebuilds users in Redis from their contact rows. Clones share rounds; the last one that is dropped ends them.
#[derive(Clone)]
pub struct Rebuilder {
    layout: Layout,
    flights: Arc<Flights>,
    redis: Arc<SharedConnection>,
    desks: Arc<BTreeMap<Shard, Desk>>,
}

/// Where requests for the users of one database go.
struct Desk {
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
        node: &Node,
        topic: &str,
        config: &RebuildConfig,
    ) -> Self {
        let redis = Arc::new(SharedConnection::new(node.clone()));
        let open = |shard| {
            let barrier = Barrier::new(store.clone(), Arc::clone(log), topic.to_owned(), shard);
            (shard, Desk::open(barrier, &redis, config))
        };
        Self {
            layout: store.layout(),
            flights: Arc::default(),
            desks: Arc::new(store.layout().shards().map(open).collect()),
            redis: Arc::clone(&redis),
        }
    }

    /// Returns once each of `uids` has been complete at some moment since the call: now read them, or find out that they have been
    /// dropped again. What is not done at the deadline goes on, and whoever asks again joins in.
    ///
    /// # Errors
    /// That of the first user that failed, [`UnreadRebuildError::TimedOut`] at the deadline.
    pub async fn rebuild(
        &self,
        uids: &[UserId],
        deadline: Instant,
    ) -> Result<(), UnreadRebuildError> {
        let mut landings = Vec::with_capacity(uids.len());
        for uid in uids {
            let (landing, ticket) = self.flights.join(*uid);
            if let Some(ticket) = ticket {
                self.desk(*uid).ask(Request::Rebuild(ticket));
            }
            landings.push((*uid, landing));
        }
        for (uid, landing) in landings {
            timeout_at(deadline, landing.outcome())
                .await
                .unwrap_or_else(|_elapsed| Err(self.desk(uid).barrier.why_late()))?;
        }
        Ok(())
    }

    /// A user's counts from the contact rows alone, which hold at least what was on the log when this was called. For when Redis cannot
    /// be reached.
    ///
    /// # Errors
    /// [`UnreadRebuildError::TimedOut`] at the deadline, otherwise that of MySQL or Kafka.
    pub async fn contact_counts(
        &self,
        uid: UserId,
        deadline: Instant,
    ) -> Result<ContactCounts, UnreadRebuildError> {
        let desk = self.desk(uid);
        let (answer, counts) = oneshot::channel();
        desk.ask(Request::Count(uid, answer));
        match timeout_at(deadline, counts).await {
            Ok(Ok(counts)) => counts,
            Ok(Err(_dropped)) => Err(UnreadRebuildError::Transient("nobody counts".to_owned())),
            Err(_elapsed) => Err(desk.barrier.why_late()),
        }
    }

    /// Begins to make users anew, those too whom Redis has: see [`Anew`]. They are of the table `n`. Whoever is not complete after
    /// `lease_ms` is left to others, or stays as they were.
    ///
    /// # Errors
    /// [`UnreadRebuildError`]; what was begun is left to its lease.
    pub async fn begin_anew(
        &self,
        n: TableNumber,
        uids: &[UserId],
        lease_ms: u64,
    ) -> Result<Anew, UnreadRebuildError> {
        let barrier = Arc::clone(&self.desks[&self.layout.shard_of(n)].barrier);
        let give_up = Instant::now() + Duration::from_millis(lease_ms);
        Anew::begin(Arc::clone(&self.redis), barrier, uids, lease_ms, give_up).await
    }

    fn desk(&self, uid: UserId) -> &Desk {
        &self.desks[&self.layout.shard_of(TableNumber::of_user(uid))]
    }
}

impl Desk {
    fn open(barrier: Barrier, redis: &Arc<SharedConnection>, config: &RebuildConfig) -> Self {
        let barrier = Arc::new(barrier);
        // Unbounded, and still bounded by who waits: one request for a user, or one for a caller.
        let (requests, queue) = mpsc::unbounded_channel();
        let tools = Tools {
            config: config.clone(),
            redis: Arc::clone(redis),
            barrier: Arc::clone(&barrier),
            again: requests.downgrade(),
        };
        tokio::spawn(worker::serve(Arc::new(tools), queue));
        Self { requests, barrier }
    }

    fn ask(&self, request: Request) {
        // A worker that is gone drops the request, which tells who waits for it.
        let _ = self.requests.send(request);
    }
}
