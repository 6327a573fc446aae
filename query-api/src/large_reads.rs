//! Reads of users with very many peers. One read at a time serves all calls for a user, so the cost for Redis and for this process does not grow with
//! the number of calls.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use problem::Problem;
use schemas::{DeviceClass, UserId};
use tokio::{
    sync::{Semaphore, oneshot},
    task::spawn_blocking,
    time::{Instant, sleep},
};
use unread_store::{Connection, SharedConnections, UnreadError, UnreadView};

use crate::{
    counts::{Counts, RedisRead},
    deadline::Deadline,
    error::QueryError,
};

/// How many reads run at the same time, over all users: each has all counts of a user in memory.
const CONCURRENT_READS: usize = 2;
/// After a read its user is not read again for this multiple of the time that the read took, at most for two seconds.
const PAUSE: u32 = 4;
const MAX_PAUSE: Duration = Duration::from_secs(2);
const RETRY_AFTER_S: u64 = 1;

type Waiter = (DeviceClass, oneshot::Sender<RedisRead>);

pub(crate) struct LargeReads {
    redis: Arc<SharedConnections>,
    places: Semaphore,
    /// The calls that wait for a user's next read. Each of these users has one task, which reads one class of devices after the other and takes one
    /// of the places at most.
    waiting: Mutex<HashMap<UserId, Vec<Waiter>>>,
}

impl LargeReads {
    pub(crate) fn new(redis: &Arc<SharedConnections>) -> Arc<Self> {
        Arc::new(Self {
            redis: Arc::clone(redis),
            places: Semaphore::new(CONCURRENT_READS),
            waiting: Mutex::default(),
        })
    }

    /// The result of a read that begins after this call, with the watermarks of all partitions.
    ///
    /// # Errors
    /// 429 if there was no such read until the deadline.
    pub(crate) async fn read(
        self: &Arc<Self>,
        uid: UserId,
        device: DeviceClass,
        deadline: Deadline,
    ) -> Result<RedisRead, QueryError> {
        let (waiter, read) = oneshot::channel();
        self.wait(uid, (device, waiter));
        match deadline.bound(read).await {
            Ok(read) => read.map_err(|_| QueryError::Defect("a read was given up".to_owned())),
            Err(_elapsed) => Err(too_many(uid).into()),
        }
    }

    fn wait(self: &Arc<Self>, uid: UserId, waiter: Waiter) {
        let mut waiting = self.waiting.lock();
        let is_first = !waiting.contains_key(&uid);
        waiting.entry(uid).or_default().push(waiter);
        drop(waiting);
        if is_first {
            tokio::spawn(Arc::clone(self).serve(uid));
        }
    }

    /// Reads for as long as a call waits.
    async fn serve(self: Arc<Self>, uid: UserId) {
        loop {
            let place = self.places.acquire().await;
            // A call that comes after this waits for the next read: the read that starts now may miss what that call has to see.
            let Some(waiters) = self.take_waiters(uid) else {
                return;
            };
            let began = Instant::now();
            let mut by_class: BTreeMap<DeviceClass, Vec<_>> = BTreeMap::new();
            for (device, waiter) in waiters {
                by_class.entry(device).or_default().push(waiter);
            }
            for (device, waiters) in by_class {
                let outcome = self.read_now(uid, device).await;
                let outcome = outcome.unwrap_or_else(|error| RedisRead::Failed(error.to_string()));
                for waiter in waiters {
                    // A caller that has timed out has dropped the receiver.
                    let _ = waiter.send(outcome.clone());
                }
            }
            drop(place);
            sleep((began.elapsed() * PAUSE).min(MAX_PAUSE)).await;
        }
    }

    /// `None` if no call waits; then the user's task has to end.
    fn take_waiters(&self, uid: UserId) -> Option<Vec<Waiter>> {
        let mut waiting = self.waiting.lock();
        let waiters = waiting.get_mut(&uid)?;
        waiters.retain(|(_, waiter)| !waiter.is_closed());
        if waiters.is_empty() {
            waiting.remove(&uid);
            return None;
        }
        Some(std::mem::take(waiters))
    }

    async fn read_now(&self, uid: UserId, device: DeviceClass) -> Result<RedisRead, UnreadError> {
        let read = |redis: Connection| async move { redis.read_unread_in_pages(uid, device).await };
        let slot = self.redis.store().index_of(uid);
        let (view, positions) = self.redis.call(slot, read).await?;
        let UnreadView::Complete { counts, unknown } = view else {
            return Ok(RedisRead::Absent);
        };
        let watermarks = positions
            .iter()
            .map(|(partition, stored)| (partition, stored.position))
            .collect();
        // The encoding takes some milliseconds, in which other calls would wait.
        Ok(
            match spawn_blocking(move || Counts::new(&counts, unknown)).await {
                Ok(Ok(counts)) => RedisRead::Complete(counts, watermarks),
                Ok(Err(error)) => RedisRead::Failed(error.to_string()),
                Err(error) => RedisRead::Failed(error.to_string()),
            },
        )
    }
}

fn too_many(uid: UserId) -> Problem {
    let mut problem = Problem::too_many_requests(RETRY_AFTER_S);
    problem.detail = format!(
        "{uid} has so many senders that the counts are read for all calls together, with pauses; they were not read in time: try again \
         later, or with a longer timeout_ms"
    );
    problem
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use unread_store::{RedisConfig, UnreadStore};

    use super::*;

    #[tokio::test]
    async fn a_read_that_does_not_come_in_time_is_429() {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = RedisConfig {
            url: format!("redis://{}", silent.local_addr().unwrap()),
            ..RedisConfig::default()
        };
        let store = UnreadStore::new(&config).unwrap();
        let reads = LargeReads::new(&Arc::new(SharedConnections::new(store)));
        let uid = "1000".parse().unwrap();
        let soon = Deadline::in_time(Some("50".to_owned().try_into().unwrap()));
        let error = reads.read(uid, DeviceClass::Pc, soon).await.err().unwrap();
        let problem = Problem::from(error);
        assert_eq!((problem.status, problem.retry_after_s), (429, Some(1)));
        assert!(problem.detail.contains("1000 has so many senders"));
    }
}
