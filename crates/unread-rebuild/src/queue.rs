use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::join_all;
use schemas::UserId;
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use unread_store::{SharedConnections, UnreadError, UnreadStore};

use crate::{Rebuilder, UnreadRebuildError};

/// The maximum of uids in the queue; the others stay in Redis until there is space.
const CAPACITY: usize = 100_000;
/// The maximum of users in a batch, and of batches under way.
const USERS_PER_BATCH: usize = 5_000;
const MAX_BATCHES: usize = 4;
/// The timeout of a batch.
const BATCH_TIMEOUT: Duration = Duration::from_secs(30);
/// How many requests are read from Redis at a time.
const REQUESTS_PER_READ: usize = 20_000;
/// How often the requests are read from Redis while the queue is empty; after failures less often.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(30);

/// The users that an event found absent and that have to be rebuilt. Clones are the same queue.
///
/// It may lose users: each of them has a request in Redis, which is removed only when the user is complete.
#[derive(Clone, Debug, Default)]
pub struct RebuildQueue {
    queued: Arc<Mutex<BTreeSet<UserId>>>,
    added: Arc<Notify>,
}

impl RebuildQueue {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds users whose rebuild is requested in Redis.
    pub fn push(&self, uids: &[UserId]) {
        let mut queued = self.lock();
        let space = CAPACITY.saturating_sub(queued.len());
        queued.extend(uids.iter().take(space));
        drop(queued);
        self.added.notify_one();
    }

    /// Rebuilds the queued users, and those requested by a former process, until `soft` is cancelled.
    pub async fn run(&self, rebuilder: Rebuilder, store: UnreadStore, soft: CancellationToken) {
        let worker = Worker {
            queue: self.clone(),
            rebuilder,
            redis: SharedConnections::new(store),
            under_way: BTreeSet::new(),
            batches: JoinSet::new(),
            poll_interval: POLL_INTERVAL,
        };
        tokio::select! {
            () = worker.run() => {}
            () = soft.cancelled() => {}
        }
    }

    /// Takes up to `limit` users; those that are under way stay queued for a later batch.
    fn take(&self, limit: usize, under_way: &BTreeSet<UserId>) -> Vec<UserId> {
        let mut queued = self.lock();
        let free = queued.difference(under_way).take(limit);
        let taken: Vec<UserId> = free.copied().collect();
        for uid in &taken {
            queued.remove(uid);
        }
        taken
    }

    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<UserId>> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Worker {
    queue: RebuildQueue,
    rebuilder: Rebuilder,
    redis: SharedConnections,
    under_way: BTreeSet<UserId>,
    batches: JoinSet<(Vec<UserId>, Result<(), UnreadRebuildError>)>,
    poll_interval: Duration,
}

impl Worker {
    async fn run(mut self) {
        let mut poll_at = Instant::now();
        loop {
            tokio::select! {
                Some(ended) = self.batches.join_next() => {
                    let (uids, outcome) = ended.expect("a batch does not panic");
                    self.finish_batch(&uids, outcome);
                }
                () = self.queue.added.notified() => {}
                () = sleep_until(poll_at) => {
                    self.read_requests().await;
                    poll_at = Instant::now() + self.poll_interval;
                }
            }
            self.begin_batches();
        }
    }

    fn begin_batches(&mut self) {
        while self.batches.len() < MAX_BATCHES {
            let uids = self.queue.take(USERS_PER_BATCH, &self.under_way);
            if uids.is_empty() {
                return;
            }
            self.under_way.extend(&uids);
            let rebuilder = self.rebuilder.clone();
            self.batches.spawn(async move {
                let outcome = rebuilder.rebuild(&uids, Instant::now() + BATCH_TIMEOUT);
                let outcome = outcome.await;
                (uids, outcome)
            });
        }
    }

    fn finish_batch(&mut self, uids: &[UserId], outcome: Result<(), UnreadRebuildError>) {
        for uid in uids {
            self.under_way.remove(uid);
        }
        match outcome {
            Ok(()) => self.poll_interval = POLL_INTERVAL,
            Err(error) => {
                tracing::warn!(%error, users = uids.len(), "not all users were rebuilt; they stay requested");
                self.back_off();
            }
        }
    }

    fn back_off(&mut self) {
        self.poll_interval = (self.poll_interval * 2).min(MAX_POLL_INTERVAL);
    }

    /// Queues the users requested in Redis, unless users are queued already.
    async fn read_requests(&mut self) {
        if !self.queue.is_empty() {
            return;
        }
        let slots = self.redis.store().slots().len();
        let reads = (0..slots).map(|slot| self.requests_in(slot, REQUESTS_PER_READ / slots));
        let mut failure = None;
        for read in join_all(reads).await {
            match read {
                Ok(mut requests) => {
                    requests.retain(|uid| !self.under_way.contains(uid));
                    self.queue.push(&requests);
                }
                Err(error) => failure = Some(error),
            }
        }
        if let Some(error) = failure {
            tracing::warn!(%error, "the requested rebuilds were not read from redis");
            self.back_off();
        }
    }

    async fn requests_in(&self, slot: usize, limit: usize) -> Result<Vec<UserId>, UnreadError> {
        self.redis.get(slot).await?.rebuild_requests(limit).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(uids: impl IntoIterator<Item = i64>) -> Vec<UserId> {
        uids.into_iter()
            .map(|uid| uid.try_into().unwrap())
            .collect()
    }

    #[test]
    fn the_queue_is_bounded() {
        let queue = RebuildQueue::new();
        queue.push(&users(1..=200_000));
        assert_eq!(queue.lock().len(), CAPACITY);
    }

    #[test]
    fn a_user_under_way_stays_queued_for_a_later_batch() {
        let queue = RebuildQueue::new();
        queue.push(&users([1, 2, 3]));
        let under_way = users([2]).into_iter().collect();
        assert_eq!(queue.take(9, &under_way), users([1, 3]));
        assert_eq!(queue.take(9, &under_way), []);
        assert_eq!(queue.take(9, &BTreeSet::new()), users([2]));
    }
}
