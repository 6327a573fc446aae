//! One round: begin, ends, wait, read, complete (PROTOCOL R4).

use std::{sync::Arc, time::Duration};

use schemas::UserId;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};
use unread_store::{BeginOutcome, PeerOrdinals, Rebuild, UnreadError};

use crate::{
    ContactCounts, UnreadRebuildError,
    barrier::Ends,
    counts,
    flights::{Outcome, Ticket},
    patience::Patience,
    worker::{Request, Tools},
};

/// How often somebody else's rebuild is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How many users' rows are in memory at a time; some have 100,000.
const USERS_PER_READ: usize = 100;

type Asker = (
    UserId,
    oneshot::Sender<Result<ContactCounts, UnreadRebuildError>>,
);

pub(crate) struct Round {
    tools: Arc<Tools>,
    give_up: Instant,
}

impl Round {
    pub(crate) fn new(tools: Arc<Tools>) -> Self {
        let give_up = Instant::now() + tools.config.give_up();
        Self { tools, give_up }
    }

    pub(crate) async fn run(self, requests: Vec<Request>) {
        let (mut tickets, mut askers) = (Vec::new(), Vec::new());
        for request in requests {
            match request {
                Request::Rebuild(ticket) => tickets.push(ticket),
                Request::Count(uid, answer) => askers.push((uid, answer)),
            }
        }
        let begun = self.begin(tickets).await;
        if begun.is_empty() && askers.is_empty() {
            return;
        }
        let mut patience = Patience::until(self.give_up);
        // Only now: whatever is applied to Redis before this moment may have missed the users, so the rows must have it.
        match self.tools.barrier.ends(&mut patience).await {
            Ok(ends) => {
                self.answer(askers, &ends).await;
                self.complete(begun, &ends).await;
            }
            Err(error) => {
                for (ticket, _) in begun {
                    land(ticket, Err(error.clone()));
                }
                for (_, asker) in askers {
                    let _ = asker.send(Err(error.clone()));
                }
            }
        }
    }

    /// Begins all that can be begun now.
    async fn begin(&self, tickets: Vec<Ticket>) -> Vec<(Ticket, Rebuild)> {
        if tickets.is_empty() {
            return Vec::new();
        }
        let mut ours = Vec::with_capacity(tickets.len());
        match self.begin_in_redis(&tickets).await {
            Ok(begun) => {
                for (ticket, (_, begin)) in tickets.into_iter().zip(begun) {
                    match begin {
                        BeginOutcome::Begun(rebuild) => ours.push((ticket, rebuild)),
                        BeginOutcome::Complete => land(ticket, Ok(())),
                        BeginOutcome::InProgress { wait_ms } => {
                            self.again(ticket, Duration::from_millis(wait_ms).min(LOOK_AGAIN));
                        }
                    }
                }
            }
            // The projector is about to write the watermarks.
            Err(UnreadError::NotReady) => {
                for ticket in tickets {
                    self.again(ticket, LOOK_AGAIN);
                }
            }
            Err(error) => {
                let error = UnreadRebuildError::from(error);
                for ticket in tickets {
                    land(ticket, Err(error.clone()));
                }
            }
        }
        ours
    }

    async fn begin_in_redis(
        &self,
        tickets: &[Ticket],
    ) -> Result<Vec<(UserId, BeginOutcome)>, UnreadError> {
        let uids: Vec<UserId> = tickets.iter().map(Ticket::uid).collect();
        let connection = self.tools.redis.get().await?;
        connection
            .begin_rebuilds(&uids, self.tools.config.lease_ms)
            .await
    }

    /// Answers those who want the counts only.
    async fn answer(&self, mut askers: Vec<Asker>, ends: &Ends) {
        while !askers.is_empty() {
            let chunk = askers.split_off(askers.len().saturating_sub(USERS_PER_READ));
            let uids: Vec<UserId> = chunk.iter().map(|(uid, _)| *uid).collect();
            let mut patience = Patience::until(self.give_up);
            let rows = self
                .tools
                .barrier
                .contacts(ends, &uids, &mut patience)
                .await;
            let users = rows.map(|rows| counts::by_user(&uids, &rows));
            for (uid, asker) in chunk {
                let counts = users.as_ref().map(|users| users[&uid].clone());
                // Who waited no longer wants no answer.
                let _ = asker.send(counts.map_err(Clone::clone));
            }
        }
    }

    /// Completes what was begun, and keeps it from others meanwhile: contacts may lag by more than a lease.
    async fn complete(&self, begun: Vec<(Ticket, Rebuild)>, ends: &Ends) {
        let rebuilds: Vec<Rebuild> = begun.iter().map(|(_, rebuild)| rebuild.clone()).collect();
        tokio::select! {
            () = self.complete_in_chunks(begun, ends) => {}
            () = self.renew(&rebuilds) => {}
        }
    }

    /// Renews the leases, without end.
    async fn renew(&self, rebuilds: &[Rebuild]) {
        let lease_ms = self.tools.config.lease_ms;
        loop {
            sleep(Duration::from_millis(lease_ms / 3)).await;
            let renewed = match self.tools.redis.get().await {
                Ok(connection) => connection.renew_rebuilds(rebuilds, lease_ms).await,
                Err(error) => Err(error),
            };
            if let Err(error) = renewed {
                tracing::debug!(%error, "leases of rebuilds were not renewed");
            }
        }
    }

    /// Completes what was begun, some users at a time.
    async fn complete_in_chunks(&self, mut begun: Vec<(Ticket, Rebuild)>, ends: &Ends) {
        while !begun.is_empty() {
            let chunk = begun.split_off(begun.len().saturating_sub(USERS_PER_READ));
            let uids: Vec<UserId> = chunk.iter().map(|(ticket, _)| ticket.uid()).collect();
            let mut patience = Patience::until(self.give_up);
            match self
                .tools
                .barrier
                .contacts(ends, &uids, &mut patience)
                .await
            {
                Ok(rows) => {
                    let mut users = counts::by_user(&uids, &rows);
                    for (ticket, rebuild) in chunk {
                        let counts = users.remove(&ticket.uid()).unwrap_or_default();
                        self.complete_one(ticket, &rebuild, counts).await;
                    }
                }
                Err(error) => {
                    for (ticket, _) in chunk {
                        land(ticket, Err(error.clone()));
                    }
                }
            }
        }
    }

    async fn complete_one(&self, ticket: Ticket, rebuild: &Rebuild, counts: ContactCounts) {
        let peers: Vec<(UserId, PeerOrdinals)> = counts.peers.into_iter().collect();
        let mut patience = Patience::until(self.give_up);
        loop {
            let error = match self.complete_in_redis(rebuild, &peers).await {
                Ok(true) => return land(ticket, Ok(())),
                // Somebody took it over, or the state went: the next round's begin tells.
                Ok(false) => return self.again(ticket, Duration::ZERO),
                Err(error) => error,
            };
            // Whether it was done is not known. It may be done again, and the lease keeps others away for as long.
            if !error.is_transient() || patience.pause().await.is_err() {
                return land(ticket, Err(error.into()));
            }
        }
    }

    async fn complete_in_redis(
        &self,
        rebuild: &Rebuild,
        peers: &[(UserId, PeerOrdinals)],
    ) -> Result<bool, UnreadError> {
        let connection = self.tools.redis.get().await?;
        connection.complete_rebuild(rebuild, peers).await
    }

    /// Puts a user into a later round, unless it has taken too long already.
    fn again(&self, ticket: Ticket, after: Duration) {
        if ticket.since().elapsed() > self.tools.config.give_up() {
            return land(ticket, Err(UnreadRebuildError::TimedOut));
        }
        let again = self.tools.again.clone();
        tokio::spawn(async move {
            sleep(after).await;
            if let Some(again) = again.upgrade() {
                // Where the worker has ended, the dropped ticket tells those who wait.
                let _ = again.send(Request::Rebuild(ticket));
            }
        });
    }
}

fn land(ticket: Ticket, outcome: Outcome) {
    let label = match &outcome {
        Ok(()) => "complete",
        Err(UnreadRebuildError::TimedOut) => "timed_out",
        Err(UnreadRebuildError::Transient(_)) => "transient",
        Err(UnreadRebuildError::Fatal(_)) => "fatal",
    };
    metrics::counter!("tidemark_unread_rebuilds_total", "outcome" => label).increment(1);
    metrics::histogram!("tidemark_unread_rebuild_seconds").record(ticket.since().elapsed());
    ticket.land(outcome);
}
