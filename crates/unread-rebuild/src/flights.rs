//! At most one rebuild of a user at a time in this process, however many ask for it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use schemas::UserId;
use tokio::{sync::watch, time::Instant};

use crate::UnreadRebuildError;

pub(crate) type Outcome = Result<(), UnreadRebuildError>;

/// The rebuilds that are under way.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    open: Mutex<HashMap<UserId, watch::Receiver<Option<Outcome>>>>,
}

/// The duty to end a rebuild. Dropped without an outcome, it tells those who wait that nobody is at it any more.
#[derive(Debug)]
pub(crate) struct Ticket {
    uid: UserId,
    since: Instant,
    outcome: watch::Sender<Option<Outcome>>,
    flights: Arc<Flights>,
    landed: bool,
}

/// The outcome of a rebuild, to be waited for.
#[derive(Debug)]
pub(crate) struct Landing(watch::Receiver<Option<Outcome>>);

impl Flights {
    /// Waits along with those who asked before, or opens a new flight and gets its ticket.
    pub(crate) fn join(self: &Arc<Self>, uid: UserId) -> (Landing, Option<Ticket>) {
        let mut open = self.lock();
        if let Some(landing) = open.get(&uid) {
            return (Landing(landing.clone()), None);
        }
        let (outcome, landing) = watch::channel(None);
        open.insert(uid, landing.clone());
        let ticket = Ticket {
            uid,
            since: Instant::now(),
            outcome,
            flights: Arc::clone(self),
            landed: false,
        };
        (Landing(landing), Some(ticket))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<UserId, watch::Receiver<Option<Outcome>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    pub(crate) fn uid(&self) -> UserId {
        self.uid
    }

    /// When the rebuild was asked for first.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    pub(crate) fn land(mut self, outcome: Outcome) {
        // Closed before it is told: who asks from now on wants a new one.
        self.close();
        self.outcome.send_replace(Some(outcome));
    }

    fn close(&mut self) {
        self.landed = true;
        self.flights.lock().remove(&self.uid);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.landed {
            self.close();
        }
    }
}

impl Landing {
    pub(crate) async fn outcome(mut self) -> Outcome {
        match self.0.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or(Ok(())),
            Err(_gone) => Err(UnreadRebuildError::Transient(
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
    async fn all_who_ask_get_the_one_outcome() {
        let flights = Arc::new(Flights::default());
        let (first, ticket) = flights.join(user());
        let (second, none) = flights.join(user());
        assert!(none.is_none());
        ticket.unwrap().land(Err(UnreadRebuildError::TimedOut));
        assert_eq!(first.outcome().await, Err(UnreadRebuildError::TimedOut));
        assert_eq!(second.outcome().await, Err(UnreadRebuildError::TimedOut));
        assert!(flights.join(user()).1.is_some());
    }

    #[tokio::test]
    async fn a_lost_ticket_is_told_and_the_next_may_try() {
        let flights = Arc::new(Flights::default());
        let (waiting, ticket) = flights.join(user());
        drop(ticket);
        assert!(matches!(
            waiting.outcome().await,
            Err(UnreadRebuildError::Transient(_))
        ));
        assert!(flights.join(user()).1.is_some());
    }
}
