//! At most one rebuild of a user at a time in this process, for any number of callers that wait for it.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use schemas::UserId;
use tokio::{sync::watch, time::Instant};

use crate::UnreadRebuildError;

pub(crate) type Outcome = Result<(), UnreadRebuildError>;

type OutcomeReceiver = watch::Receiver<Option<Outcome>>;

/// The rebuilds that are under way.
#[derive(Debug, Default)]
pub(crate) struct SingleFlight {
    pending: Mutex<HashMap<UserId, OutcomeReceiver>>,
}

/// A rebuild that has to be finished. If it is dropped without an outcome, its waiters get an error.
#[derive(Debug)]
pub(crate) struct PendingRebuild {
    uid: UserId,
    since: Instant,
    outcome: watch::Sender<Option<Outcome>>,
    flight: Arc<SingleFlight>,
}

/// Waits for the outcome of a rebuild.
#[derive(Debug)]
pub(crate) struct Waiter(OutcomeReceiver);

impl SingleFlight {
    /// Joins the rebuild that is under way, or begins one: then the caller has to finish it.
    pub(crate) fn join(self: &Arc<Self>, uid: UserId) -> (Waiter, Option<PendingRebuild>) {
        let mut pending = self.pending.lock();
        if let Some(outcome) = pending.get(&uid) {
            return (Waiter(outcome.clone()), None);
        }
        let (sender, receiver) = watch::channel(None);
        pending.insert(uid, receiver.clone());
        let rebuild = PendingRebuild {
            uid,
            since: Instant::now(),
            outcome: sender,
            flight: Arc::clone(self),
        };
        (Waiter(receiver), Some(rebuild))
    }
}

impl PendingRebuild {
    pub(crate) fn uid(&self) -> UserId {
        self.uid
    }

    /// When the rebuild was requested first.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    pub(crate) fn finish(self, outcome: Outcome) {
        let sender = self.outcome.clone();
        // Removed before the outcome is sent, so that later callers begin a new rebuild.
        drop(self);
        sender.send_replace(Some(outcome));
    }
}

impl Drop for PendingRebuild {
    fn drop(&mut self) {
        self.flight.pending.lock().remove(&self.uid);
    }
}

impl Waiter {
    pub(crate) async fn outcome(mut self) -> Outcome {
        match self.0.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or(Ok(())),
            Err(_dropped) => Err(UnreadRebuildError::Transient(
                "the rebuild was given up".to_owned(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> UserId {
        UserId::try_from(1).unwrap()
    }

    #[tokio::test]
    async fn all_waiters_get_the_same_outcome() {
        let flight = Arc::new(SingleFlight::default());
        let (first, pending) = flight.join(user());
        let (second, none) = flight.join(user());
        assert!(none.is_none());
        pending.unwrap().finish(Err(UnreadRebuildError::TimedOut));
        assert_eq!(first.outcome().await, Err(UnreadRebuildError::TimedOut));
        assert_eq!(second.outcome().await, Err(UnreadRebuildError::TimedOut));
        assert!(flight.join(user()).1.is_some());
    }

    #[tokio::test]
    async fn a_dropped_rebuild_is_reported_and_the_next_may_try() {
        let flight = Arc::new(SingleFlight::default());
        let (waiting, pending) = flight.join(user());
        drop(pending);
        assert!(matches!(
            waiting.outcome().await,
            Err(UnreadRebuildError::Transient(_))
        ));
        assert!(flight.join(user()).1.is_some());
    }
}
