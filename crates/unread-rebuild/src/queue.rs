use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{StreamExt as _, future::join_all, stream::FuturesUnordered};
use parking_lot::Mutex;
use schemas::{TableNumber, UserId};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use unread_store::{Connection, SharedConnections, UnreadError, UnreadStore, slot_index};

use crate::{Rebuilder, UnreadRebuildError};

/// The maximum of uids of one table in the queue; the others stay in Redis until there is space.
const QUEUED_OF_TABLE: usize = 2_000;
/// The maximum of users of one table that are rebuilt at a time.
const UNDER_WAY_OF_TABLE: usize = 500;
/// The timeout of a user's rebuild.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How many requests are read from Redis at a time; Redis serves no other client meanwhile.
const REQUESTS_PER_READ: usize = 2_000;
/// How soon more requests are read from a slot if some were queued.
const READ_INTERVAL: Duration = Duration::from_millis(100);
/// How often the requests are read if there are none. After failures, and if no user can be queued, they are read less often.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(30);

/// The users that an event found absent and that have to be rebuilt. Clones are the same queue.
///
/// The queue may lose users: each of them has a request in Redis, which is removed only when the user is complete.
#[derive(Clone, Debug, Default)]
pub struct RebuildQueue {
    tables: Arc<Mutex<Tables>>,
    added: Arc<Notify>,
}

/// The users by table. The users of a table are in one database and one slot, and do not wait for those of other tables.
#[derive(Debug)]
struct Tables([Table; 64]);

#[derive(Debug, Default)]
struct Table {
    queued: BTreeSet<UserId>,
    under_way: BTreeSet<UserId>,
    /// After a failure of the table, its requests stay in Redis: for how long, and until when.
    pause: Duration,
    paused_until: Option<Instant>,
}

impl RebuildQueue {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds users whose rebuild is requested in Redis.
    pub fn push(&self, uids: &[UserId]) {
        let mut tables = self.tables.lock();
        for uid in uids {
            tables.of(*uid).push(*uid);
        }
        drop(tables);
        self.added.notify_one();
    }

    /// Rebuilds the queued users, and those requested by a former process, until `soft` is cancelled.
    pub async fn run(&self, rebuilder: Rebuilder, store: UnreadStore, soft: CancellationToken) {
        let redis = SharedConnections::new(store);
        let slots = 0..redis.store().slots().len();
        tokio::select! {
            () = self.rebuild_queued(&rebuilder) => {}
            _ = join_all(slots.map(|slot| self.poll_requests(&redis, slot))) => {}
            () = soft.cancelled() => {}
        }
    }

    /// Never returns.
    async fn rebuild_queued(&self, rebuilder: &Rebuilder) {
        let mut under_way = FuturesUnordered::new();
        loop {
            under_way.extend(self.take().into_iter().map(async |uid| {
                let deadline = Instant::now() + TIMEOUT;
                (uid, rebuilder.rebuild(&[uid], deadline).await)
            }));
            tokio::select! {
                Some((uid, outcome)) = under_way.next() => self.tables.lock().of(uid).finish(uid, outcome),
                () = self.added.notified() => {}
            }
        }
    }

    /// Takes the users that can be rebuilt now.
    fn take(&self) -> Vec<UserId> {
        let mut tables = self.tables.lock();
        tables.0.iter_mut().flat_map(Table::take).collect()
    }

    /// Queues the users requested in a slot, again and again; never returns.
    async fn poll_requests(&self, redis: &SharedConnections, slot: usize) {
        let slots = redis.store().slots().len();
        let mut interval = POLL_INTERVAL;
        loop {
            if self.tables.lock().lack_users_of(slot, slots) {
                let read = requests_in(redis, slot, REQUESTS_PER_READ / slots);
                interval = match read.await {
                    Ok(requests) if requests.is_empty() => POLL_INTERVAL,
                    Ok(requests) if self.push_requested(&requests) => READ_INTERVAL,
                    Ok(_) => longer(interval),
                    Err(error) => {
                        let slot = &redis.store().slots()[slot];
                        tracing::warn!(%error, "the requested rebuilds were not read from {slot}");
                        longer(interval)
                    }
                };
            }
            sleep(interval).await;
        }
    }

    /// Adds requests that were read from Redis. Returns whether any was new and could be queued.
    fn push_requested(&self, requests: &[UserId]) -> bool {
        let mut tables = self.tables.lock();
        let mut added = false;
        for uid in requests {
            let table = tables.of(*uid);
            if !table.is_paused() && !table.under_way.contains(uid) {
                added |= table.push(*uid);
            }
        }
        drop(tables);
        self.added.notify_one();
        added
    }
}

impl Default for Tables {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Table::default()))
    }
}

impl Tables {
    fn of(&mut self, uid: UserId) -> &mut Table {
        &mut self.0[TableNumber::of_user(uid).index()]
    }

    /// Whether a table of this slot takes requests and has none queued.
    fn lack_users_of(&self, slot: usize, slots: usize) -> bool {
        let of_slot = TableNumber::all().filter(|n| slot_index(*n, slots) == slot);
        of_slot
            .map(|n| &self.0[n.index()])
            .any(|table| table.queued.is_empty() && !table.is_paused())
    }
}

impl Table {
    /// Returns whether the user was added.
    fn push(&mut self, uid: UserId) -> bool {
        self.queued.len() < QUEUED_OF_TABLE && self.queued.insert(uid)
    }

    /// Takes as many users as may be rebuilt at a time. Users that are being rebuilt already stay queued.
    fn take(&mut self) -> Vec<UserId> {
        let limit = UNDER_WAY_OF_TABLE - self.under_way.len();
        let free = self.queued.difference(&self.under_way).take(limit);
        let taken: Vec<UserId> = free.copied().collect();
        for uid in &taken {
            self.queued.remove(uid);
        }
        self.under_way.extend(&taken);
        taken
    }

    fn finish(&mut self, uid: UserId, outcome: Result<(), UnreadRebuildError>) {
        self.under_way.remove(&uid);
        match outcome {
            Ok(()) => self.pause = Duration::ZERO,
            // One failure is reported; others come at the same time for the same reason.
            Err(error) if !self.is_paused() => {
                self.pause = (self.pause * 2).clamp(POLL_INTERVAL, MAX_POLL_INTERVAL);
                self.paused_until = Some(Instant::now() + self.pause);
                let table = TableNumber::of_user(uid);
                tracing::warn!(%error, %table, "users were not rebuilt; they stay requested");
            }
            Err(_) => {}
        }
    }

    fn is_paused(&self) -> bool {
        self.paused_until
            .is_some_and(|until| Instant::now() < until)
    }
}

fn longer(interval: Duration) -> Duration {
    (interval * 2).min(MAX_POLL_INTERVAL)
}

async fn requests_in(
    redis: &SharedConnections,
    slot: usize,
    limit: usize,
) -> Result<Vec<UserId>, UnreadError> {
    let read = |redis: Connection| async move { redis.rebuild_requests(limit).await };
    redis.call(slot, read).await
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
    fn the_queue_is_bounded_and_leaves_space_to_other_tables() {
        let queue = RebuildQueue::new();
        queue.push(&users((1..=10_000).map(|n| n * 64)));
        queue.push(&users([1]));
        let taken = queue.take();
        assert_eq!(taken.len(), UNDER_WAY_OF_TABLE + 1);
        assert_eq!(taken.last(), users([1]).last());
        let left: usize = queue.tables.lock().0.iter().map(|t| t.queued.len()).sum();
        assert_eq!(left, QUEUED_OF_TABLE - UNDER_WAY_OF_TABLE);
        assert_eq!(queue.take(), []);
    }

    #[test]
    fn a_user_under_way_stays_queued_for_later() {
        let queue = RebuildQueue::new();
        queue.push(&users([2]));
        assert_eq!(queue.take(), users([2]));
        queue.push(&users([1, 2, 3]));
        assert_eq!(queue.take(), users([1, 3]));
        assert_eq!(queue.take(), []);
        let [two] = users([2])[..] else { panic!() };
        queue.tables.lock().of(two).finish(two, Ok(()));
        assert_eq!(queue.take(), users([2]));
    }

    #[test]
    fn requests_of_a_table_wait_after_a_failure_and_not_those_of_others() {
        let queue = RebuildQueue::new();
        let [one, other] = users([1, 2])[..] else {
            panic!()
        };
        queue.push(&[one]);
        queue.take();
        let failed = Err(UnreadRebuildError::TimedOut);
        queue.tables.lock().of(one).finish(one, failed);
        assert!(queue.push_requested(&[one, other]));
        assert_eq!(queue.take(), [other]);
        // No other user can be queued now: the requests are read again later.
        assert!(!queue.push_requested(&[one, other]));
        // An event has found the user absent.
        queue.push(&[one]);
        assert_eq!(queue.take(), [one]);
    }
}
