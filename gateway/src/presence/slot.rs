//! One slot of Redis: a lease of this gateway, and under it the connections of the slot's users.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use schemas::UserId;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until, timeout},
};
use unread_store::{AddedConnection, Notice, UnreadError};

use super::entries::{Batch, Entries};
use crate::state::Gateway;

/// Of each kind, so many are written with one request.
const BATCH: usize = 256;
/// At each renewal so many connections are written again.
const REFRESHED: usize = 1_000;
/// How soon something that failed is tried again, at most.
const RETRY: Duration = Duration::from_millis(500);
/// What Redis takes longer for says nothing about which connection is the earlier one.
const IN_TIME: Duration = Duration::from_millis(500);
/// At the end.
const END_TIME: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Slot {
    entries: Mutex<Entries>,
    /// Something is to be written.
    pub(super) changed: Notify,
    /// Users whose presence somebody here looks at, and which may have changed.
    looked_at: Mutex<HashSet<UserId>>,
    pub(super) looks: Notify,
}

impl Slot {
    pub(super) fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn look(&self, uids: impl IntoIterator<Item = UserId>) {
        self.looked_at().extend(uids);
        self.looks.notify_one();
    }

    pub(super) fn take_looked_at(&self) -> Vec<UserId> {
        self.looked_at().drain().collect()
    }

    fn looked_at(&self) -> MutexGuard<'_, HashSet<UserId>> {
        self.looked_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds the lease and writes what changes, until the last connection has ended at a shutdown. A gateway that is ended by force leaves its
    /// lease to its end.
    pub(super) async fn keep(&self, gateway: &Gateway, index: usize) {
        let lease = gateway.config.lease();
        let retry = RETRY.min(lease / 3);
        let mut renew_at = Instant::now();
        loop {
            tokio::select! {
                biased;
                () = gateway.shutdown.hard().cancelled() => return,
                () = sleep_until(renew_at) => {
                    renew_at = Instant::now() + lease / 3;
                    if let Err(error) = self.hold_lease(gateway, index, lease).await {
                        tracing::debug!(%error, index, "the lease of presence is not held");
                        renew_at = Instant::now() + retry;
                        continue;
                    }
                    self.entries().refresh(Instant::now(), REFRESHED);
                }
                () = self.changed.notified() => {}
                () = gateway.all_closed_at_shutdown() => break,
            }
            if let Err(error) = self.write(gateway, index).await {
                tracing::debug!(%error, index, "presence is not written");
                renew_at = renew_at.min(Instant::now() + retry);
            }
        }
        // Who does not answer sees the lease end by itself.
        let _ = timeout(END_TIME, self.end(gateway, index)).await;
    }

    async fn hold_lease(
        &self,
        gateway: &Gateway,
        index: usize,
        lease: Duration,
    ) -> Result<(), UnreadError> {
        let lease_ms = lease.as_millis() as u64;
        let until = Instant::now() + lease;
        let held = self.entries().lease().map(str::to_owned);
        let redis = gateway.redis.get(index).await?;
        if let Some(held) = held {
            if redis.hold_lease(&held, lease_ms, false).await? {
                self.entries().renew_lease(until);
                return Ok(());
            }
            tracing::info!(index, "the lease of presence has ended, another one begins");
            self.entries().lose_lease();
        }
        let id = format!("{:032x}", rand::random::<u128>());
        redis.hold_lease(&id, lease_ms, true).await?;
        let settled_at = Instant::now() + lease;
        self.entries().begin_lease(id, until, settled_at);
        Ok(())
    }

    async fn write(&self, gateway: &Gateway, index: usize) -> Result<(), UnreadError> {
        loop {
            let batch = self.entries().take(Instant::now(), BATCH);
            let Some(batch) = batch else { return Ok(()) };
            match self.write_batch(gateway, index, &batch).await {
                Ok(true) => {}
                Ok(false) => {
                    self.entries().put_back(batch);
                    // After a look at the lease.
                    self.changed.notify_one();
                    return Ok(());
                }
                Err(error) => {
                    self.entries().put_back(batch);
                    return Err(error);
                }
            }
        }
    }

    /// False where it took so long that the order of connections, which follows from how long ago they began, may be wrong: they are to be written
    /// again, and nobody is replaced.
    async fn write_batch(
        &self,
        gateway: &Gateway,
        index: usize,
        batch: &Batch,
    ) -> Result<bool, UnreadError> {
        let Batch {
            lease,
            ended,
            added,
        } = batch;
        let begun = Instant::now();
        let redis = gateway.redis.get(index).await?;
        let mut changed = Vec::new();
        if !ended.is_empty() {
            changed = redis.remove_connections(lease, ended).await?;
        }
        if !added.is_empty() {
            let max_devices = gateway.config.max_devices;
            let answers = redis.add_connections(lease, added, max_devices).await?;
            if begun.elapsed() > IN_TIME {
                return Ok(false);
            }
            for (added, answer) in added.iter().zip(answers) {
                // Where the lease has ended the next renewal notices it, and everything is written again.
                let Some(answer) = answer else { continue };
                if answer.is_first {
                    changed.push(added.uid);
                }
                self.entries().began(added.number, answer.began);
                self.replace(gateway, added.uid, &answer).await?;
            }
        }
        for uid in changed {
            gateway.redis.publish(&Notice::Presence(uid)).await?;
        }
        Ok(true)
    }

    /// Ends the connections whose place is taken, wherever they are. A notice that is lost is repeated when the connection is written again.
    async fn replace(
        &self,
        gateway: &Gateway,
        uid: UserId,
        answer: &AddedConnection,
    ) -> Result<(), UnreadError> {
        for id in &answer.replaced {
            let here = self.entries().connection(&id.lease, id.number).cloned();
            match here {
                Some(connection) => connection.replace(),
                None => {
                    let notice = Notice::Replaced(uid, id.clone());
                    gateway.redis.publish(&notice).await?;
                }
            }
        }
        Ok(())
    }

    async fn end(&self, gateway: &Gateway, index: usize) -> Result<(), UnreadError> {
        self.write(gateway, index).await?;
        let lease = self.entries().lease().map(str::to_owned);
        if let Some(lease) = lease {
            gateway.redis.get(index).await?.end_lease(&lease).await?;
        }
        Ok(())
    }
}
