//! One batch of rebuilds (PROTOCOL R4): begin, read the ends of the log, wait for the contact rows, read them, complete.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use schemas::UserId;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep},
};
use unread_store::{BeginOutcome, PeerOrdinals, Rebuild, SharedConnection, UnreadError};

use crate::{
    ContactCounts, RebuildConfig, UnreadRebuildError,
    backoff::Backoff,
    barrier::{Barrier, Ends},
    counts,
    single_flight::{Outcome, PendingRebuild},
};

/// How often another process's rebuild is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long a batch waits for ordinals that are being looked up, which takes a moment unless their database is away.
const UNRESOLVED_READS_TIMEOUT: Duration = Duration::from_secs(2);
/// How many users' rows are in memory at a time; some users have 100,000.
const USERS_PER_READ: usize = 100;

type CountRequest = (
    UserId,
    oneshot::Sender<Result<ContactCounts, UnreadRebuildError>>,
);

pub(crate) enum Request {
    /// Make a user complete in Redis.
    Rebuild(PendingRebuild),
    /// Read a user's counts from the rows alone.
    Count(
        UserId,
        oneshot::Sender<Result<ContactCounts, UnreadRebuildError>>,
    ),
}

/// What the batches of one database share.
pub(crate) struct Context {
    pub(crate) config: RebuildConfig,
    pub(crate) redis: Arc<SharedConnection>,
    pub(crate) barrier: Arc<Barrier>,
    /// Takes retries. Weak, so that the worker ends when all handles are dropped.
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
        // Only now: events applied to Redis before this moment may have missed the users, so the rows must contain them.
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
        if rebuilds.is_empty() {
            return Vec::new();
        }
        let mut begun = Vec::with_capacity(rebuilds.len());
        match self.begin_in_redis(&rebuilds).await {
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
        rebuilds: &[PendingRebuild],
    ) -> Result<Vec<(UserId, BeginOutcome)>, UnreadError> {
        let uids: Vec<UserId> = rebuilds.iter().map(PendingRebuild::uid).collect();
        let connection = self.context.redis.get().await?;
        connection
            .begin_rebuilds(&uids, self.context.config.lease_ms)
            .await
    }

    /// Reads the users' counts once the rows contain everything before `ends`. Users whose ordinals are being looked up are left out.
    async fn counts(
        &self,
        ends: &Ends,
        uids: &[UserId],
    ) -> Result<BTreeMap<UserId, ContactCounts>, UnreadRebuildError> {
        let barrier = &self.context.barrier;
        let contacts = barrier.contacts(ends, uids, &mut self.backoff()).await?;
        let mut users = counts::by_user(uids, &contacts.rows);
        users.retain(|uid, _| !contacts.open.contains(uid));
        Ok(users)
    }

    /// Responds to the requests for counts.
    async fn respond(&self, mut requests: Vec<CountRequest>, ends: &Ends) {
        let (mut open, mut pauses) = (Vec::new(), pauses_for_unresolved_reads());
        while !requests.is_empty() {
            let chunk = requests.split_off(requests.len().saturating_sub(USERS_PER_READ));
            let uids: Vec<UserId> = chunk.iter().map(|(uid, _)| *uid).collect();
            let users = self.counts(ends, &uids).await;
            for (uid, response) in chunk {
                // A caller that has timed out has dropped the receiver.
                match users.as_ref().map(|users| users.get(&uid)) {
                    Ok(Some(counts)) => drop(response.send(Ok(counts.clone()))),
                    Ok(None) => open.push((uid, response)),
                    Err(error) => drop(response.send(Err(error.clone()))),
                }
            }
            if requests.is_empty() && !open.is_empty() {
                requests = std::mem::take(&mut open);
                if pauses.pause().await.is_err() {
                    for (_, response) in requests.drain(..) {
                        let _ = response.send(Err(UnreadRebuildError::TimedOut));
                    }
                }
            }
        }
    }

    /// Completes the rebuilds, and renews their leases meanwhile: contacts may lag by more than a lease.
    async fn complete(&self, begun: Vec<(PendingRebuild, Rebuild)>, ends: &Ends) {
        let rebuilds: Vec<Rebuild> = begun.iter().map(|(_, rebuild)| rebuild.clone()).collect();
        tokio::select! {
            () = self.complete_in_chunks(begun, ends) => {}
            () = self.renew(&rebuilds) => {}
        }
    }

    /// Renews the leases; never returns.
    async fn renew(&self, rebuilds: &[Rebuild]) {
        let lease_ms = self.context.config.lease_ms;
        loop {
            sleep(Duration::from_millis(lease_ms / 3)).await;
            let renewed = match self.context.redis.get().await {
                Ok(connection) => connection.renew_rebuilds(rebuilds, lease_ms).await,
                Err(error) => Err(error),
            };
            if let Err(error) = renewed {
                tracing::debug!(%error, "leases of rebuilds were not renewed");
            }
        }
    }

    /// Completes the rebuilds, some users at a time.
    async fn complete_in_chunks(&self, mut begun: Vec<(PendingRebuild, Rebuild)>, ends: &Ends) {
        let (mut open, mut pauses) = (Vec::new(), pauses_for_unresolved_reads());
        while !begun.is_empty() {
            let chunk = begun.split_off(begun.len().saturating_sub(USERS_PER_READ));
            let uids: Vec<UserId> = chunk.iter().map(|(pending, _)| pending.uid()).collect();
            match self.counts(ends, &uids).await {
                Ok(mut users) => {
                    for (pending, rebuild) in chunk {
                        match users.remove(&pending.uid()) {
                            Some(counts) => self.complete_one(pending, &rebuild, counts).await,
                            None => open.push((pending, rebuild)),
                        }
                    }
                }
                Err(error) => {
                    for (pending, _) in chunk {
                        finish(pending, Err(error.clone()));
                    }
                }
            }
            if begun.is_empty() && !open.is_empty() {
                begun = std::mem::take(&mut open);
                // Others need the batch's place.
                if pauses.pause().await.is_err() {
                    for (pending, _) in begun.drain(..) {
                        self.retry(pending, POLL_INTERVAL);
                    }
                }
            }
        }
    }

    async fn complete_one(
        &self,
        pending: PendingRebuild,
        rebuild: &Rebuild,
        counts: ContactCounts,
    ) {
        let peers: Vec<(UserId, PeerOrdinals)> = counts.peers.into_iter().collect();
        let mut backoff = self.backoff();
        loop {
            let error = match self.complete_in_redis(rebuild, &peers).await {
                Ok(true) => return finish(pending, Ok(())),
                // It was taken over, or the state was dropped: beginning again shows which.
                Ok(false) => return self.retry(pending, Duration::ZERO),
                Err(error) => error,
            };
            // The outcome is unknown. Completing may be repeated, and the lease keeps other processes away meanwhile.
            if !error.is_transient() || backoff.pause().await.is_err() {
                return finish(pending, Err(error.into()));
            }
        }
    }

    async fn complete_in_redis(
        &self,
        rebuild: &Rebuild,
        peers: &[(UserId, PeerOrdinals)],
    ) -> Result<bool, UnreadError> {
        let connection = self.context.redis.get().await?;
        connection.complete_rebuild(rebuild, peers).await
    }

    /// Puts a rebuild into a later batch, unless its time is up.
    fn retry(&self, pending: PendingRebuild, delay: Duration) {
        if pending.since().elapsed() > self.context.config.give_up() {
            return finish(pending, Err(UnreadRebuildError::TimedOut));
        }
        let requests = self.context.requests.clone();
        tokio::spawn(async move {
            sleep(delay).await;
            if let Some(requests) = requests.upgrade() {
                // Where the worker has ended, the rebuild is dropped and its waiters get an error.
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
        Err(UnreadRebuildError::Transient(_)) => "transient",
        Err(UnreadRebuildError::Fatal(_)) => "fatal",
    };
    metrics::counter!("tidemark_unread_rebuilds_total", "outcome" => label).increment(1);
    metrics::histogram!("tidemark_unread_rebuild_seconds").record(pending.since().elapsed());
    pending.finish(outcome);
}
