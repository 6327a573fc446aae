//! A capacity that all callers share, with a limit for each user.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use schemas::UserId;
use tokio::sync::Notify;

use crate::caller::Caller;

/// A capacity (requests, bytes) for all callers, of which one user may hold a part only. A rate limit alone does not bound what is held
/// for long: a user who calls rarely could hold the total capacity.
#[derive(Debug)]
pub struct CallerQuota {
    total: usize,
    per_user: usize,
    taken: Mutex<Taken>,
    given_back: Notify,
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
}

impl CallerQuota {
    /// A capacity of `total`, of which each user may hold `per_user`.
    #[must_use]
    pub fn new(total: usize, per_user: usize) -> Arc<Self> {
        Arc::new(Self {
            total,
            per_user,
            taken: Mutex::default(),
            given_back: Notify::new(),
        })
    }

    /// Takes `amount`; `None` where that exceeds what is left in total or for this user. The limit per user does not apply to services,
    /// which act for many users, nor to callers without authentication.
    #[must_use]
    pub fn try_acquire(self: &Arc<Self>, caller: &Caller, amount: usize) -> Option<QuotaPermit> {
        let user = match caller {
            Caller::User(uid) => Some(*uid),
            Caller::Service(_) | Caller::Anyone => None,
        };
        let mut taken = self.taken();
        let by_user = user.and_then(|uid| taken.by_users.get(&uid).copied());
        let by_user = by_user.unwrap_or_default();
        let fits = |limit: usize, taken: usize| amount <= limit.saturating_sub(taken);
        if !fits(self.total, taken.all) || (user.is_some() && !fits(self.per_user, by_user)) {
            return None;
        }
        taken.all += amount;
        if let Some(uid) = user {
            taken.by_users.insert(uid, by_user + amount);
        }
        Some(QuotaPermit {
            quota: Arc::clone(self),
            user,
            amount,
        })
    }

    /// Takes `amount` as soon as it is there for this caller. Those who wait are served in no order.
    pub async fn acquire(self: &Arc<Self>, caller: &Caller, amount: usize) -> QuotaPermit {
        loop {
            // Before the attempt, so that nothing that is given back after it is missed.
            let given_back = self.given_back.notified();
            if let Some(permit) = self.try_acquire(caller, amount) {
                return permit;
            }
            given_back.await;
        }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for QuotaPermit {
    fn drop(&mut self) {
        let mut taken = self.quota.taken();
        taken.all -= self.amount;
        if let Some(uid) = self.user {
            match taken.by_users.get_mut(&uid) {
                Some(by_user) if *by_user > self.amount => *by_user -= self.amount,
                _ => drop(taken.by_users.remove(&uid)),
            }
        }
        drop(taken);
        self.quota.given_back.notify_waiters();
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
        assert!(quota.taken().by_users.is_empty());
        assert_eq!(quota.taken().all, 0);
    }
}
