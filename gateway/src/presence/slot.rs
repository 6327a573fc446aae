//! One slot of Redis: a lease of this gateway, and under it the connections of the slot's users.

use std::{
    collections::{HashSet, VecDeque},
    mem,
    sync::Arc,
    time::Duration,
};

use futures::future::join;
use parking_lot::{Mutex, MutexGuard};
use schemas::UserId;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, sleep_until, timeout},
};
use unread_store::{ConnectionId, Notice, SharedConnections, UnreadError};

use super::entries::{Batch, Entries};
use crate::config::GatewayConfig;

/// How many of each kind one request writes.
const BATCH: usize = 256;
/// How many connections are written again at each renewal.
const REFRESHED: usize = 1_000;
/// How many notices are kept until Redis takes them.
const MAX_PENDING: usize = 100_000;
/// The longest pause before something that failed is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// Slower writes are not used to order connections.
const IN_TIME: Duration = Duration::from_millis(500);
/// How long the last writes may take at the end.
const END_TIME: Duration = Duration::from_secs(1);

pub(super) struct Slot {
    pub(super) index: usize,
    pub(super) redis: Arc<SharedConnections>,
    pub(super) lease: Duration,
    max_devices: usize,
    entries: Mutex<Entries>,
    /// Something is to be written.
    pub(super) changed: Notify,
    /// What other gateways are to be told.
    pending_notices: Mutex<VecDeque<Notice>>,
    /// Users at whom a device here looks, and whose presence may have changed.
    stale: watch::Sender<HashSet<UserId>>,
}

#[derive(PartialEq, Eq)]
enum Written {
    InTime,
    /// Too slow a write: the order of connections follows from how long ago they were established, and may be wrong. None is replaced, and they are
    /// written again.
    TooLate,
}

impl Slot {
    pub(super) fn new(index: usize, redis: Arc<SharedConnections>, config: &GatewayConfig) -> Self {
        Self {
            index,
            redis,
            lease: config.lease(),
            max_devices: config.max_devices,
            entries: Mutex::default(),
            changed: Notify::new(),
            pending_notices: Mutex::default(),
            stale: watch::Sender::default(),
        }
    }

    pub(super) fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock()
    }

    /// Somebody here looks at a user's presence, which may have changed.
    pub(super) fn mark_stale(&self, uid: UserId) {
        self.stale.send_if_modified(|uids| uids.insert(uid));
    }

    /// Waits for users whose presence is stale.
    pub(super) async fn stale(&self) -> Vec<UserId> {
        let mut changes = self.stale.subscribe();
        // The sender lives as long as this slot.
        let _ = changes.wait_for(|uids| !uids.is_empty()).await;
        let uids = self.stale.send_replace(HashSet::new());
        uids.into_iter().collect()
    }

    /// Ends a connection that another one replaces; false if it is not one of this gateway.
    pub(super) fn replace(&self, id: &ConnectionId) -> bool {
        let here = self.entries().connection(id);
        if let Some(connection) = &here {
            connection.replace();
        }
        here.is_some()
    }

    /// Holds the lease and writes what changes, until the last connection has ended at a shutdown. The lease does not wait for what is written,
    /// however much that is.
    pub(super) async fn run(&self, all_closed: impl Future<Output = ()>) {
        tokio::select! {
            ((), ()) = join(self.renew_leases(), self.write_changes()) => {}
            () = all_closed => {}
        }
        // If Redis does not answer, the lease ends by itself.
        let _ = timeout(END_TIME, self.end()).await;
    }

    /// Renews the lease, for ever.
    async fn renew_leases(&self) {
        let mut is_held = true;
        loop {
            let begun = Instant::now();
            let mut pause = self.lease / 3;
            match self.hold_lease().await {
                Ok(()) => {
                    is_held = true;
                    self.entries().refresh(begun, REFRESHED);
                    self.changed.notify_one();
                }
                Err(error) => {
                    self.entries().lose_lease_if_over(Instant::now());
                    if mem::replace(&mut is_held, false) {
                        tracing::warn!(%error, self.index, "nobody is shown as present: the lease of presence is not held");
                    }
                    pause = pause.min(RETRY);
                }
            }
            sleep_until(begun + pause).await;
        }
    }

    /// Writes what changes, for ever.
    async fn write_changes(&self) {
        loop {
            if let Err(error) = self.write().await {
                tracing::debug!(%error, self.index, "presence is not written");
                sleep(RETRY.min(self.lease / 3)).await;
            } else {
                self.changed.notified().await;
            }
        }
    }

    async fn hold_lease(&self) -> Result<(), UnreadError> {
        let lease_ms = self.lease.as_millis() as u64;
        let until = Instant::now() + self.lease;
        let held = self.entries().lease().map(str::to_owned);
        let redis = self.redis.get(self.index).await?;
        if let Some(held) = held {
            if redis.renew_lease(&held, lease_ms).await? {
                self.entries().renew_lease(until);
                return Ok(());
            }
            tracing::info!(
                self.index,
                "the lease of presence has ended, another one begins"
            );
            self.entries().lose_lease();
        }
        // Redis bounds the lease by the length in its id, whatever its clock does.
        let id = format!("{:032x}-{lease_ms}", rand::random::<u128>());
        redis.begin_lease(&id, lease_ms).await?;
        let settled_at = Instant::now() + self.lease;
        self.entries().begin_lease(id, until, settled_at);
        Ok(())
    }

    /// Writes and publishes everything that is to be, a batch at a time.
    async fn write(&self) -> Result<(), UnreadError> {
        loop {
            self.publish().await?;
            let batch = self.entries().take(Instant::now(), BATCH);
            let Some(batch) = batch else { return Ok(()) };
            match self.write_batch(&batch).await {
                Ok(Written::InTime) => {}
                Ok(Written::TooLate) => {
                    self.entries().write_again(&batch);
                    // The late ones are written again after all others, and not in this call: it may be the last one.
                    if self.entries().has_only_late() {
                        self.changed.notify_one();
                        return self.publish().await;
                    }
                }
                Err(error) => {
                    self.entries().put_back(batch);
                    return Err(error);
                }
            }
        }
    }

    async fn write_batch(&self, batch: &Batch) -> Result<Written, UnreadError> {
        let Batch {
            lease,
            ended,
            added,
        } = batch;
        let started = Instant::now();
        let redis = self.redis.get(self.index).await?;
        if !ended.is_empty() {
            let away = redis.remove_connections(lease, ended).await?;
            self.tell(away.into_iter().map(Notice::Presence));
        }
        let mut answers = Vec::new();
        if !added.is_empty() {
            let adding = redis.add_connections(lease, added, self.max_devices);
            answers = adding.await?;
        }
        let is_in_time = started.elapsed() <= IN_TIME;
        for (added, answer) in added.iter().zip(answers) {
            // If the lease has ended, the next renewal notices it, and everything is written again.
            let Some(answer) = answer else { continue };
            if answer.is_first {
                self.tell([Notice::Presence(added.uid)]);
            }
            if is_in_time {
                let own = ConnectionId {
                    lease: lease.clone(),
                    number: added.number,
                };
                let replaced = self.entries().replaced(&own, answer);
                self.end_replaced(added.uid, replaced);
            }
        }
        Ok(match is_in_time || added.is_empty() {
            true => Written::InTime,
            false => Written::TooLate,
        })
    }

    /// Ends the connections that are replaced, on whichever gateway. A lost notice is repeated when the connection that replaces them is written again.
    fn end_replaced(&self, uid: UserId, replaced: Vec<ConnectionId>) {
        let elsewhere = replaced.into_iter().filter(|id| !self.replace(id));
        self.tell(elsewhere.map(|id| Notice::Replaced(uid, id)));
    }

    /// Queues notices for other gateways. Notices that exceed the queue are dropped: the other gateways learn of the change when they read again.
    fn tell(&self, notices: impl IntoIterator<Item = Notice>) {
        let mut pending_notices = self.pending_notices.lock();
        let room = MAX_PENDING.saturating_sub(pending_notices.len());
        pending_notices.extend(notices.into_iter().take(room));
    }

    /// Publishes the notices, a batch at a time; what could not be published is left for the next time.
    async fn publish(&self) -> Result<(), UnreadError> {
        loop {
            let notices: Vec<Notice> = {
                let mut pending_notices = self.pending_notices.lock();
                let count = pending_notices.len().min(BATCH);
                pending_notices.drain(..count).collect()
            };
            if notices.is_empty() {
                return Ok(());
            }
            let published = self.redis.publish_all(self.index, &notices).await;
            if published.is_err() {
                self.tell(notices);
                return published;
            }
        }
    }

    async fn end(&self) -> Result<(), UnreadError> {
        self.write().await?;
        let lease = self.entries().lease().map(str::to_owned);
        if let Some(lease) = lease {
            self.redis.get(self.index).await?.end_lease(&lease).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
