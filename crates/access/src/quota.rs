//! A capacity that all callers share, with a limit for each user.

use std::{collections::HashMap, sync::Arc, time::Instant};

use parking_lot::Mutex;
use schemas::UserId;
use tokio::sync::oneshot;

use crate::{
    caller::Caller,
    wait_queue::{WaitQueue, Waiter},
};

/// A capacity (requests, bytes) for all callers, of which one user may hold a part only. A rate limit alone does not bound what is held
/// for long: a user who calls rarely could hold the total capacity.
#[derive(Debug)]
pub struct CallerQuota {
    total: usize,
    per_user: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken: Taken,
    queue: WaitQueue<QuotaPermit>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_users: HashMap<UserId, usize>,
}

/// What one caller holds; dropping it gives it back.
#[derive(Debug)]
pub struct QuotaPermit {
    quota: Arc<CallerQuota>,
    user: Option<UserId>,
    amount: usize,
    since: Instant,
}

impl CallerQuota {
    /// A capacity of `total`, of which each user may hold `per_user`.
    #[must_use]
    pub fn new(total: usize, per_user: usize) -> Arc<Self> {
        Arc::new(Self {
            total,
            per_user,
            state: Mutex::default(),
        })
    }

    /// A capacity of `total`, of which each user may hold a quarter, and one at least.
    #[must_use]
    pub fn of_quarters(total: usize) -> Arc<Self> {
        Self::new(total, (total / 4).max(1))
    }

    /// Takes `amount`; `None` if that exceeds what is left in total or for this user. The limit per user does not apply to services, which act for
    /// many users, nor to callers without authentication.
    #[must_use]
    pub fn try_acquire(self: &Arc<Self>, caller: &Caller, amount: usize) -> Option<QuotaPermit> {
        let user = user_of(caller);
        let mut state = self.state.lock();
        let fits = self.has_share(&state.taken, user, amount) && self.has(&state.taken, amount);
        fits.then(|| self.take(&mut state.taken, user, amount))
    }

    /// Takes `amount` as soon as it is available to this caller. Of the accounts that wait, the one that has held permits for the shortest time is next; an
    /// account's own calls are served in their order. Callers without a limit of their own are one account.
    pub async fn acquire(self: &Arc<Self>, caller: &Caller, amount: usize) -> QuotaPermit {
        loop {
            let (granted, permit) = oneshot::channel();
            let waiter = Waiter { amount, granted };
            self.state.lock().queue.push(user_of(caller), waiter);
            self.serve();
            // An error would mean that the sender was dropped, which happens only if the caller has gone.
            if let Ok(permit) = permit.await {
                return permit;
            }
        }
    }

    /// Gives what is free to the callers that wait.
    fn serve(self: &Arc<Self>) {
        while let Some((granted, permit)) = self.next() {
            // If the caller has gone in this moment, the permit is given back.
            drop(granted.send(permit));
        }
    }

    fn next(self: &Arc<Self>) -> Option<(oneshot::Sender<QuotaPermit>, QuotaPermit)> {
        let mut state = self.state.lock();
        let State { taken, queue } = &mut *state;
        let has_share = |user, amount| self.has_share(taken, user, amount);
        let has = |amount| self.has(taken, amount);
        let (user, Waiter { amount, granted }) = queue.pop(has_share, has)?;
        Some((granted, self.take(taken, user, amount)))
    }

    fn has(&self, taken: &Taken, amount: usize) -> bool {
        amount <= self.total.saturating_sub(taken.all)
    }

    fn has_share(&self, taken: &Taken, user: Option<UserId>, amount: usize) -> bool {
        user.is_none_or(|uid| {
            let by_user = taken.by_users.get(&uid).copied().unwrap_or_default();
            amount <= self.per_user.saturating_sub(by_user)
        })
    }

    fn take(
        self: &Arc<Self>,
        taken: &mut Taken,
        user: Option<UserId>,
        amount: usize,
    ) -> QuotaPermit {
        taken.all += amount;
        if let Some(uid) = user {
            *taken.by_users.entry(uid).or_default() += amount;
        }
        QuotaPermit {
            quota: Arc::clone(self),
            user,
            amount,
            since: Instant::now(),
        }
    }
}

fn user_of(caller: &Caller) -> Option<UserId> {
    match caller {
        Caller::User(uid) => Some(*uid),
        Caller::Service(_) | Caller::Anyone => None,
    }
}

impl Drop for QuotaPermit {
    fn drop(&mut self) {
        let mut state = self.quota.state.lock();
        let State { taken, queue } = &mut *state;
        taken.all -= self.amount;
        if let Some(uid) = self.user {
            match taken.by_users.get_mut(&uid) {
                Some(by_user) if *by_user > self.amount => *by_user -= self.amount,
                _ => drop(taken.by_users.remove(&uid)),
            }
        }
        // Most of what is taken is given back while nobody waits: by every call of query-api, every connection of a gateway.
        if queue.is_empty() {
            return;
        }
        queue.charge(self.user, self.since.elapsed());
        drop(state);
        self.quota.serve();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::poll;

    use super::*;
    use crate::caller::Service;

    fn user(uid: i64) -> Caller {
        Caller::User(uid.try_into().unwrap())
    }

    fn service() -> Caller {
        Caller::Service(Arc::new(Service {
            id: "a1".to_owned(),
            name: "gateway".to_owned(),
            scopes: [].into(),
            limits: None,
        }))
    }

    #[test]
    fn no_user_takes_everything() {
        let quota = CallerQuota::new(3, 2);
        let first = quota.try_acquire(&user(1), 1).unwrap();
        let _second = quota.try_acquire(&user(1), 1).unwrap();
        assert!(quota.try_acquire(&user(1), 1).is_none());
        let _other = quota.try_acquire(&user(2), 1).unwrap();
        assert!(
            quota.try_acquire(&user(2), 1).is_none(),
            "the total is taken"
        );
        drop(first);
        assert!(quota.try_acquire(&user(1), 1).is_some());
    }

    #[test]
    fn only_the_total_limits_services_and_anonymous_callers() {
        for caller in [service(), Caller::Anyone] {
            let quota = CallerQuota::new(3, 1);
            let _taken = quota.try_acquire(&caller, 3).unwrap();
            assert!(quota.try_acquire(&caller, 1).is_none());
        }
    }

    #[tokio::test]
    async fn who_waits_gets_what_is_given_back() {
        let quota = CallerQuota::new(2, 1);
        let by_first = user(1);
        let first = quota.acquire(&by_first, 1).await;
        let mut second = pin!(quota.acquire(&by_first, 1));
        assert!(poll!(&mut second).is_pending());
        // Others are not held up by the user who waits.
        let other = quota.acquire(&user(2), 1).await;
        drop(other);
        assert!(poll!(&mut second).is_pending(), "what is free is not his");
        drop(first);
        let _second = second.await;
    }

    #[test]
    fn users_who_hold_nothing_are_removed() {
        let quota = CallerQuota::new(3, 2);
        let first = quota.try_acquire(&user(1), 1).unwrap();
        let second = quota.try_acquire(&user(1), 1).unwrap();
        drop(second);
        drop(first);
        assert!(quota.state.lock().taken.by_users.is_empty());
        assert_eq!(quota.state.lock().taken.all, 0);
    }
}
