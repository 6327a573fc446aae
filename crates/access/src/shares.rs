//! A whole that callers share, of which no user takes all.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use schemas::UserId;

use crate::caller::Caller;

/// So much of something (places, bytes) for all callers, and so much of it for one user at most. What is held for long needs this beside
/// a rate: a user who calls rarely and holds everything would leave the others nothing.
#[derive(Debug)]
pub struct Shares {
    whole: usize,
    of_user: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_users: HashMap<UserId, usize>,
}

/// What one caller took, which comes back with the value.
#[derive(Debug)]
pub struct Share {
    shares: Arc<Shares>,
    user: Option<UserId>,
    amount: usize,
}

impl Shares {
    /// `whole` for all callers together, `of_user` of it for each user.
    #[must_use]
    pub fn new(whole: usize, of_user: usize) -> Arc<Self> {
        Arc::new(Self {
            whole,
            of_user,
            taken: Mutex::default(),
        })
    }

    /// Takes `amount`; `None` where that is more than is left, of the whole or for this user. Services act for many users, and whoever
    /// calls without authentication has no name: of these only the whole counts.
    #[must_use]
    pub fn take(self: &Arc<Self>, caller: &Caller, amount: usize) -> Option<Share> {
        let user = match caller {
            Caller::User(uid) => Some(*uid),
            Caller::Service(_) | Caller::Anyone => None,
        };
        let mut taken = self.taken();
        let by_user = user.and_then(|uid| taken.by_users.get(&uid).copied());
        let by_user = by_user.unwrap_or_default();
        let is_left = |most: usize, taken: usize| amount <= most.saturating_sub(taken);
        if !is_left(self.whole, taken.all) || (user.is_some() && !is_left(self.of_user, by_user)) {
            return None;
        }
        taken.all += amount;
        if let Some(uid) = user {
            taken.by_users.insert(uid, by_user + amount);
        }
        Some(Share {
            shares: Arc::clone(self),
            user,
            amount,
        })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Gives back all but `amount`.
    pub fn shrink_to(&mut self, amount: usize) {
        self.give_back(self.amount.saturating_sub(amount));
    }

    fn give_back(&mut self, amount: usize) {
        let mut taken = self.shares.taken();
        self.amount -= amount;
        taken.all -= amount;
        let Some(uid) = self.user else { return };
        match taken.by_users.get_mut(&uid) {
            Some(by_user) if *by_user > amount => *by_user -= amount,
            _ => drop(taken.by_users.remove(&uid)),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back(self.amount);
    }
}

#[cfg(test)]
mod tests {
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
    fn no_user_takes_all() {
        let shares = Shares::new(3, 2);
        let first = shares.take(&user(1), 1).unwrap();
        let _second = shares.take(&user(1), 1).unwrap();
        assert!(shares.take(&user(1), 1).is_none());
        let _other = shares.take(&user(2), 1).unwrap();
        assert!(shares.take(&user(2), 1).is_none(), "the whole is taken");
        drop(first);
        assert!(shares.take(&user(1), 1).is_some());
    }

    #[test]
    fn services_and_the_nameless_share_the_whole_only() {
        for caller in [service(), Caller::Anyone] {
            let shares = Shares::new(3, 1);
            let _taken = shares.take(&caller, 3).unwrap();
            assert!(shares.take(&caller, 1).is_none());
        }
    }

    #[test]
    fn what_is_not_needed_after_all_comes_back() {
        let shares = Shares::new(100, 60);
        let mut share = shares.take(&user(1), 60).unwrap();
        assert!(shares.take(&user(1), 1).is_none());
        share.shrink_to(20);
        share.shrink_to(50);
        let more = shares.take(&user(1), 40).unwrap();
        assert_eq!(shares.taken().all, 60);
        drop(more);
        drop(share);
        assert_eq!(shares.taken().all, 0);
    }

    #[test]
    fn users_who_hold_nothing_are_forgotten() {
        let shares = Shares::new(3, 2);
        let mut first = shares.take(&user(1), 1).unwrap();
        let second = shares.take(&user(1), 1).unwrap();
        first.shrink_to(0);
        drop(second);
        assert!(shares.taken().by_users.is_empty());
        drop(first);
        assert_eq!(shares.taken().all, 0);
    }
}
