use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use schemas::UserId;
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use unread_store::{Node, SharedConnection, UnreadError};

use crate::{Rebuilder, UnreadRebuildError};

/// The most uids that the list holds; the others are in Redis's set until there is room.
const CAPACITY: usize = 100_000;
/// How many users a batch has at most, and how many batches are under way at a time.
const USERS_PER_BATCH: usize = 5_000;
const BATCHES: usize = 4;
/// How long a batch is waited for before its users count as failed.
const BATCH_DEADLINE: Duration = Duration::from_secs(30);
/// How many users are taken out of Redis's set at a time.
const USERS_PER_READ: usize = 20_000;
/// How often Redis's set is read while there is nothing else to do; after failures less often.
const READ_AGAIN: Duration = Duration::from_secs(1);
const READ_AGAIN_LATEST: Duration = Duration::from_secs(30);

/// The users whose rebuild is wanted because an event found them absent. Clones are the same list.
///
/// It may forget: every one of them was put into Redis's set of wanted users first, and leaves it only when complete.
#[derive(Clone, Debug, Default)]
pub struct RebuildQueue {
    listed: Arc<Mutex<BTreeSet<UserId>>>,
    more: Arc<Notify>,
}

impl RebuildQueue {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds users that are in Redis's set of wanted users.
    pub fn want(&self, uids: &[UserId]) {
        let mut listed = self.lock();
        let room = CAPACITY.saturating_sub(listed.len());
        listed.extend(uids.iter().take(room));
        drop(listed);
        self.more.notify_one();
    }

    /// Rebuilds whoever is wanted, also those that a former process left, until `soft` is cancelled.
    pub async fn work(&self, rebuilder: Rebuilder, node: Node, soft: CancellationToken) {
        let worker = Worker {
            queue: self.clone(),
            rebuilder,
            redis: SharedConnection::new(node),
            under_way: BTreeSet::new(),
            batches: JoinSet::new(),
            read_after: READ_AGAIN,
        };
        tokio::select! {
            () = worker.run() => {}
            () = soft.cancelled() => {}
        }
    }

    /// Takes up to `most` users off the list; those that are under way stay on it for their next turn.
    fn take(&self, most: usize, under_way: &BTreeSet<UserId>) -> Vec<UserId> {
        let mut listed = self.lock();
        let free = listed.difference(under_way).take(most);
        let taken: Vec<UserId> = free.copied().collect();
        for uid in &taken {
            listed.remove(uid);
        }
        taken
    }

    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<UserId>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Worker {
    queue: RebuildQueue,
    rebuilder: Rebuilder,
    redis: SharedConnection,
    under_way: BTreeSet<UserId>,
    batches: JoinSet<(Vec<UserId>, Result<(), UnreadRebuildError>)>,
    read_after: Duration,
}

impl Worker {
    async fn run(mut self) {
        let mut read_at = Instant::now();
        loop {
            tokio::select! {
                Some(ended) = self.batches.join_next() => {
                    let (uids, outcome) = ended.expect("waiting for a rebuild does not panic");
                    self.note(&uids, outcome);
                }
                () = self.queue.more.notified() => {}
                () = sleep_until(read_at) => {
                    self.read_wanted().await;
                    read_at = Instant::now() + self.read_after;
                }
            }
            self.begin_batches();
        }
    }

    fn begin_batches(&mut self) {
        while self.batches.len() < BATCHES {
            let uids = self.queue.take(USERS_PER_BATCH, &self.under_way);
            if uids.is_empty() {
                return;
            }
            self.under_way.extend(&uids);
            let rebuilder = self.rebuilder.clone();
            self.batches.spawn(async move {
                let outcome = rebuilder.rebuild(&uids, Instant::now() + BATCH_DEADLINE);
                let outcome = outcome.await;
                (uids, outcome)
            });
        }
    }

    fn note(&mut self, uids: &[UserId], outcome: Result<(), UnreadRebuildError>) {
        for uid in uids {
            self.under_way.remove(uid);
        }
        match outcome {
            Ok(()) => self.read_after = READ_AGAIN,
            Err(error) => {
                tracing::warn!(%error, users = uids.len(), "not all were rebuilt; they stay wanted");
                self.wait_longer();
            }
        }
    }

    fn wait_longer(&mut self) {
        self.read_after = (self.read_after * 2).min(READ_AGAIN_LATEST);
    }

    /// Lists those whom Redis knows to be wanted, unless there is enough to do.
    async fn read_wanted(&mut self) {
        if !self.queue.is_empty() {
            return;
        }
        match self.wanted().await {
            Ok(wanted) => {
                let new: Vec<UserId> = wanted
                    .into_iter()
                    .filter(|uid| !self.under_way.contains(uid))
                    .collect();
                self.queue.want(&new);
            }
            Err(error) => {
                tracing::warn!(%error, "the set of wanted users was not read");
                self.wait_longer();
            }
        }
    }

    async fn wanted(&self) -> Result<Vec<UserId>, UnreadError> {
        self.redis
            .get()
            .await?
            .rebuild_requests(USERS_PER_READ)
            .await
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
    fn the_list_is_bounded() {
        let queue = RebuildQueue::new();
        queue.want(&users(1..=200_000));
        assert_eq!(queue.lock().len(), CAPACITY);
    }

    #[test]
    fn who_is_under_way_stays_listed_for_the_next_turn() {
        let queue = RebuildQueue::new();
        queue.want(&users([1, 2, 3]));
        let under_way = users([2]).into_iter().collect();
        assert_eq!(queue.take(9, &under_way), users([1, 3]));
        assert_eq!(queue.take(9, &under_way), []);
        assert_eq!(queue.take(9, &BTreeSet::new()), users([2]));
    }
}
