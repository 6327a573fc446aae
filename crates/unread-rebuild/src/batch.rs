//! One batch of rebuilds (PROTOCOL R4): begin, read the ends of the log, wait for the contact rows, read them, complete.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::future::join_all;
use schemas::UserId;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep},
};
use unread_store::{
    BeginOutcome, Connection, PeerOrdinals, Rebuild, SharedConnections, UnreadError,
};
use uuid::Uuid;

use crate::{
    ContactCounts, RebuildConfig, UnreadRebuildError,
    backoff::Backoff,
    barrier::{Barrier, Ends},
    counts::Users,
    single_flight::{Outcome, PendingRebuild},
};

/// How often another process's rebuild is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How many users are completed from one snapshot, which should be open for a moment only.
const USERS_PER_SNAPSHOT: usize = 100;
/// How long a batch waits for ordinals that are being looked up. A look-up takes only a moment unless the messages' database is away.
const UNRESOLVED_READS_TIMEOUT: Duration = Duration::from_secs(2);

type CountResponse = oneshot::Sender<Result<ContactCounts, UnreadRebuildError>>;
type CountRequest = (UserId, CountResponse);

pub(crate) enum Request {
    /// Make a user complete in Redis.
    Rebuild(PendingRebuild),
    /// Read a user's counts from the rows alone.
    Count(UserId, CountResponse),
}

/// The state that the batches of one database share.
pub(crate) struct Context {
    pub(crate) config: RebuildConfig,
    pub(crate) redis: Arc<SharedConnections>,
    pub(crate) barrier: Arc<Barrier>,
    /// For requests that are retried. Weak, so that the worker ends when all handles are dropped.
    pub(crate) requests: mpsc::WeakUnboundedSender<Request>,
}

pub(crate) struct Batch {
    context: Arc<Context>,
    deadline: Instant,
}

impl Batch {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        let deadline = Instant::now() + context.config.give_up();
        Self { context, deadline }
    }

    pub(crate) async fn run(self, requests: Vec<Request>) {
        let (mut rebuilds, mut counts) = (Vec::new(), Vec::new());
        for request in requests {
            match request {
                Request::Rebuild(pending) => rebuilds.push(pending),
                Request::Count(uid, response) => counts.push((uid, response)),
            }
        }
        let begun = self.begin(rebuilds).await;
        if begun.is_empty() && counts.is_empty() {
            return;
        }
        let mut backoff = self.backoff();
        // The ends are read only now: events applied to Redis before this moment may have missed the users, so the rows must contain them.
        match self.context.barrier.ends(&mut backoff).await {
            Ok(ends) => {
                tokio::join!(self.respond(counts, &ends), self.complete(begun, &ends));
            }
            Err(error) => {
                for (pending, _) in begun {
                    finish(pending, Err(error.clone()));
                }
                for (_, response) in counts {
                    let _ = response.send(Err(error.clone()));
                }
            }
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff::until(self.deadline)
    }

    /// Begins the rebuilds that can begin now, and retries the others later.
    async fn begin(&self, rebuilds: Vec<PendingRebuild>) -> Vec<(PendingRebuild, Rebuild)> {
        let store = self.context.redis.store();
        let slots = store.by_slot(rebuilds, PendingRebuild::uid).into_iter();
        let begun = slots.map(|(slot, rebuilds)| self.begin_in_slot(slot, rebuilds));
        join_all(begun).await.into_iter().flatten().collect()
    }

    async fn begin_in_slot(
        &self,
        slot: usize,
        rebuilds: Vec<PendingRebuild>,
    ) -> Vec<(PendingRebuild, Rebuild)> {
        let mut begun = Vec::with_capacity(rebuilds.len());
        match self.begin_in_redis(slot, &rebuilds).await {
            Ok(outcomes) => {
                for (pending, (_, outcome)) in rebuilds.into_iter().zip(outcomes) {
                    match outcome {
                        BeginOutcome::Begun(rebuild) => begun.push((pending, rebuild)),
                        BeginOutcome::Complete => finish(pending, Ok(())),
                        BeginOutcome::InProgress { wait_ms } => {
                            let wait = Duration::from_millis(wait_ms).min(POLL_INTERVAL);
                            self.retry(pending, wait);
                        }
                    }
                }
            }
            // The projector is about to write the positions.
            Err(UnreadError::NotReady) => {
                for pending in rebuilds {
                    self.retry(pending, POLL_INTERVAL);
                }
            }
            Err(error) => {
                let error = UnreadRebuildError::from(error);
                for pending in rebuilds {
                    finish(pending, Err(error.clone()));
                }
            }
        }
        begun
    }

    async fn begin_in_redis(
        &self,
        slot: usize,
        rebuilds: &[PendingRebuild],
    ) -> Result<Vec<(UserId, BeginOutcome)>, UnreadError> {
        let uids: Vec<UserId> = rebuilds.iter().map(PendingRebuild::uid).collect();
        let (uids, nonce, lease_ms) = (&uids, Uuid::new_v4(), self.context.config.lease_ms);
        let begin =
            |redis: Connection| async move { redis.begin_rebuilds(uids, nonce, lease_ms).await };
        self.context.redis.call(slot, begin).await
    }

    /// Reads the users' counts once the rows contain everything before `ends`. Users whose ordinals are being looked up are left out.
    async fn users(
        &self,
        ends: &Ends,
        uids: &[UserId],
        backoff: &mut Backoff,
    ) -> Result<Users, UnreadRebuildError> {
        let contacts = self.context.barrier.contacts(ends, uids, backoff);
        Ok(Users::new(contacts.await?))
    }

    /// Responds to the requests for counts.
    async fn respond(&self, requests: Vec<CountRequest>, ends: &Ends) {
        let mut left: BTreeMap<UserId, Vec<_>> = BTreeMap::new();
        for (uid, response) in requests {
            left.entry(uid).or_default().push(response);
        }
        let mut pauses = None;
        let error = loop {
            let error = match self.respond_to_ready(&mut left, ends).await {
                Ok(()) if left.is_empty() => return,
                Ok(()) => UnreadRebuildError::UnresolvedRead,
                Err(error) => error,
            };
            let pauses = pauses.get_or_insert_with(pauses_for_unresolved_reads);
            if pauses.pause().await.is_err() {
                break error;
            }
        };
        for response in left.into_values().flatten() {
            let _ = response.send(Err(error.clone()));
        }
    }

    /// Responds for the users whose rows are ready, and leaves those whose ordinals are being looked up.
    async fn respond_to_ready(
        &self,
        left: &mut BTreeMap<UserId, Vec<CountResponse>>,
        ends: &Ends,
    ) -> Result<(), UnreadRebuildError> {
        let uids: Vec<UserId> = left.keys().copied().collect();
        let mut users = self.users(ends, &uids, &mut self.backoff()).await?;
        while let Some((uid, counts)) = users.next().await? {
            for response in left.remove(&uid).unwrap_or_default() {
                // A caller that has timed out has dropped the receiver.
                let _ = response.send(Ok(counts.clone()));
            }
        }
        Ok(())
    }

    /// Completes the rebuilds, and renews their leases meanwhile: contacts may lag by more than a lease.
    async fn complete(&self, begun: Vec<(PendingRebuild, Rebuild)>, ends: &Ends) {
        let rebuilds: Vec<Rebuild> = begun.iter().map(|(_, rebuild)| rebuild.clone()).collect();
        tokio::select! {
            () = self.complete_all(begun, ends) => {}
            () = self.renew(&rebuilds) => {}
        }
    }

    /// Renews the leases; never returns.
    async fn renew(&self, rebuilds: &[Rebuild]) {
        let lease_ms = self.context.config.lease_ms;
        loop {
            sleep(Duration::from_millis(lease_ms / 3)).await;
            self.set_leases(rebuilds.to_vec(), lease_ms).await;
        }
    }

    /// Sets the leases to end `lease_ms` from now, if Redis can be reached.
    async fn set_leases(&self, rebuilds: Vec<Rebuild>, lease_ms: u64) {
        let store = self.context.redis.store();
        let slots = store.by_slot(rebuilds, Rebuild::uid).into_iter();
        let set = slots.map(async |(slot, rebuilds)| {
            let connection = self.context.redis.get(slot).await?;
            connection.renew_rebuilds(&rebuilds, lease_ms).await
        });
        for outcome in join_all(set).await {
            if let Err(error) = outcome {
                tracing::debug!(%error, "leases of rebuilds were not renewed");
            }
        }
    }

    /// Completes the rebuilds of all users, one after the other.
    async fn complete_all(&self, begun: Vec<(PendingRebuild, Rebuild)>, ends: &Ends) {
        let with_uid = |rebuild: (PendingRebuild, Rebuild)| (rebuild.0.uid(), rebuild);
        let mut left: BTreeMap<UserId, _> = begun.into_iter().map(with_uid).collect();
        let mut pauses = None;
        loop {
            if let Err(error) = self.complete_ready(&mut left, ends).await {
                for (pending, _) in left.into_values() {
                    finish(pending, Err(error.clone()));
                }
                return;
            }
            if left.is_empty() {
                return;
            }
            let pauses = pauses.get_or_insert_with(pauses_for_unresolved_reads);
            if pauses.pause().await.is_err() {
                return self.give_place_to_others(left.into_values()).await;
            }
        }
    }

    /// Ends the leases. Otherwise the next batch of these users would wait until the leases expire.
    async fn give_place_to_others(&self, left: impl Iterator<Item = (PendingRebuild, Rebuild)>) {
        let (pending, rebuilds): (Vec<_>, Vec<_>) = left.unzip();
        self.set_leases(rebuilds, 0).await;
        for pending in pending {
            self.retry(pending, POLL_INTERVAL);
        }
    }

    /// Completes the users whose rows are ready, and leaves those whose ordinals are being looked up. After a failure it reads a new snapshot, so
    /// that none is open while it waits.
    async fn complete_ready(
        &self,
        left: &mut BTreeMap<UserId, (PendingRebuild, Rebuild)>,
        ends: &Ends,
    ) -> Result<(), UnreadRebuildError> {
        let mut backoff = self.backoff();
        let all: Vec<UserId> = left.keys().copied().collect();
        for uids in all.chunks(USERS_PER_SNAPSHOT) {
            while let Err(error) = self.complete_some(left, uids, ends, &mut backoff).await {
                let is_fatal = matches!(error, UnreadRebuildError::Fatal(_));
                if is_fatal || backoff.pause().await.is_err() {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    async fn complete_some(
        &self,
        left: &mut BTreeMap<UserId, (PendingRebuild, Rebuild)>,
        uids: &[UserId],
        ends: &Ends,
        backoff: &mut Backoff,
    ) -> Result<(), UnreadRebuildError> {
        let uids: Vec<UserId> = uids
            .iter()
            .copied()
            .filter(|uid| left.contains_key(uid))
            .collect();
        let mut users = self.users(ends, &uids, backoff).await?;
        while let Some((uid, counts)) = users.next().await? {
            let Some((pending, rebuild)) = left.remove(&uid) else {
                continue;
            };
            let peers: Vec<(UserId, PeerOrdinals)> = counts.peers.into_iter().collect();
            match self.complete_in_redis(&rebuild, &peers).await {
                Ok(true) => finish(pending, Ok(())),
                // The rebuild was taken over, or the state was dropped: beginning again shows which.
                Ok(false) => self.retry(pending, Duration::ZERO),
                // The outcome is unknown. Completing may be repeated, and the lease keeps other processes away meanwhile.
                Err(error) => {
                    left.insert(uid, (pending, rebuild));
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    async fn complete_in_redis(
        &self,
        rebuild: &Rebuild,
        peers: &[(UserId, PeerOrdinals)],
    ) -> Result<bool, UnreadError> {
        let connection = self.context.redis.of(rebuild.uid()).await?;
        connection.complete_rebuild(rebuild, peers).await
    }

    /// Puts a rebuild into a later batch, unless the rebuild's time is up.
    fn retry(&self, pending: PendingRebuild, delay: Duration) {
        if pending.since().elapsed() > self.context.config.give_up() {
            return finish(pending, Err(UnreadRebuildError::TimedOut));
        }
        let requests = self.context.requests.clone();
        tokio::spawn(async move {
            sleep(delay).await;
            if let Some(requests) = requests.upgrade() {
                // If the worker has ended, the rebuild is dropped and its waiters get an error.
                let _ = requests.send(Request::Rebuild(pending));
            }
        });
    }
}

fn pauses_for_unresolved_reads() -> Backoff {
    Backoff::until(Instant::now() + UNRESOLVED_READS_TIMEOUT)
}

fn finish(pending: PendingRebuild, outcome: Outcome) {
    let label = match &outcome {
        Ok(()) => "complete",
        Err(UnreadRebuildError::TimedOut) => "timed_out",
        Err(UnreadRebuildError::UnresolvedRead) => "unresolved_read",
        Err(UnreadRebuildError::Transient(_)) => "transient",
        Err(UnreadRebuildError::Fatal(_)) => "fatal",
    };
    metrics::counter!("tidemark_unread_rebuilds_total", "outcome" => label).increment(1);
    metrics::histogram!("tidemark_unread_rebuild_seconds").record(pending.since().elapsed());
    pending.finish(outcome);
}
