//! The callers that wait for a part of a capacity, and which one is next.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use schemas::UserId;
use tokio::sync::oneshot;

/// Accounts that wait. Next is the account that has held permits for the shortest time: an account that asks for much waits itself, and does not make others
/// wait.
#[derive(Debug)]
pub(crate) struct WaitQueue<T> {
    accounts: HashMap<Option<UserId>, Account<T>>,
    /// For how long the account that was served last had held permits. A new account begins with this time and not with zero, so it has no advantage from
    /// what others held before it came.
    begin: Duration,
    arrivals: u64,
}

#[derive(Debug)]
struct Account<T> {
    held_for: Duration,
    waiting: VecDeque<(u64, Waiter<T>)>,
}

/// A call that waits.
#[derive(Debug)]
pub(crate) struct Waiter<T> {
    pub(crate) amount: usize,
    pub(crate) granted: oneshot::Sender<T>,
}

impl<T> Default for WaitQueue<T> {
    fn default() -> Self {
        Self {
            accounts: HashMap::new(),
            begin: Duration::ZERO,
            arrivals: 0,
        }
    }
}

impl<T> WaitQueue<T> {
    /// Puts a call after the others of its account.
    pub(crate) fn push(&mut self, user: Option<UserId>, waiter: Waiter<T>) {
        self.arrivals += 1;
        let arrival = self.arrivals;
        self.account(user).waiting.push_back((arrival, waiter));
    }

    /// Whether no account waits, and none has waited since the last [`Self::pop`].
    pub(crate) fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// Charges an account that has held a permit for `held_for` while others wait. If no other waits, the account took nothing away from them.
    pub(crate) fn charge(&mut self, user: Option<UserId>, held_for: Duration) {
        self.account(user).held_for += held_for;
    }

    /// Takes out the next call of the accounts whose share allows it; `None` if the capacity does not suffice for that call.
    pub(crate) fn pop(
        &mut self,
        has_share: impl Fn(Option<UserId>, usize) -> bool,
        has: impl FnOnce(usize) -> bool,
    ) -> Option<(Option<UserId>, Waiter<T>)> {
        self.forget();
        let firsts = self.accounts.iter().filter_map(|(user, account)| {
            let (arrival, waiter) = account.waiting.front()?;
            let order = (account.held_for, *arrival);
            has_share(*user, waiter.amount).then_some((order, *user, waiter.amount))
        });
        let ((held_for, _), user, amount) = firsts.min_by_key(|(order, ..)| *order)?;
        if !has(amount) {
            return None;
        }
        self.begin = self.begin.max(held_for);
        let (_, waiter) = self.account(user).waiting.pop_front()?;
        Some((user, waiter))
    }

    fn account(&mut self, user: Option<UserId>) -> &mut Account<T> {
        let held_for = self.begin;
        self.accounts.entry(user).or_insert_with(|| Account {
            held_for,
            waiting: VecDeque::new(),
        })
    }

    /// Forgets callers that have gone, accounts that neither wait nor held more than others, and everything if nobody waits.
    fn forget(&mut self) {
        for account in self.accounts.values_mut() {
            let is_there = |(_, waiter): &(u64, Waiter<T>)| !waiter.granted.is_closed();
            account.waiting.retain(is_there);
        }
        let begin = self.begin;
        let waits = |account: &Account<T>| !account.waiting.is_empty();
        if !self.accounts.values().any(waits) {
            *self = Self::default();
        }
        self.accounts
            .retain(|_, account| waits(account) || account.held_for > begin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(uid: i64) -> Option<UserId> {
        Some(uid.try_into().unwrap())
    }

    fn push(queue: &mut WaitQueue<()>, uid: i64) -> oneshot::Receiver<()> {
        let (granted, receiver) = oneshot::channel();
        queue.push(user(uid), Waiter { amount: 1, granted });
        receiver
    }

    fn pop(queue: &mut WaitQueue<()>) -> Option<i64> {
        let next = queue.pop(|_, _| true, |_| true);
        next.map(|(user, _)| user.unwrap().get())
    }

    #[test]
    fn who_held_least_is_next_and_who_comes_waits_for_nobody_who_held_more() {
        let mut queue = WaitQueue::default();
        let mut waiting = vec![];
        for uid in [1, 1, 1, 2, 2] {
            waiting.push(push(&mut queue, uid));
        }
        assert_eq!(pop(&mut queue), Some(1));
        queue.charge(user(1), Duration::from_millis(300));
        assert_eq!(pop(&mut queue), Some(2));
        queue.charge(user(2), Duration::from_millis(100));
        assert_eq!(pop(&mut queue), Some(2), "it held less");
        queue.charge(user(2), Duration::from_millis(100));
        waiting.push(push(&mut queue, 3));
        assert_eq!(pop(&mut queue), Some(3), "it begins where the last one was");
        queue.charge(user(3), Duration::from_millis(150));
        waiting.push(push(&mut queue, 3));
        assert_eq!(pop(&mut queue), Some(3));
        queue.charge(user(3), Duration::from_millis(60));
        waiting.push(push(&mut queue, 3));
        assert_eq!(pop(&mut queue), Some(1));
        queue.charge(user(1), Duration::from_millis(300));
        assert_eq!([(); 3].map(|()| pop(&mut queue)), [Some(3), Some(1), None]);
        assert!(queue.is_empty(), "{queue:?}");
    }

    #[test]
    fn who_may_not_have_more_and_who_has_gone_hold_up_nobody() {
        let mut queue = WaitQueue::default();
        let waiting = [1, 2, 3].map(|uid| push(&mut queue, uid));
        let next = queue.pop(|of, _| of != user(1), |_| true);
        assert_eq!(next.unwrap().0, user(2));
        let [first, ..] = waiting;
        drop(first);
        assert!(queue.pop(|_, _| true, |_| false).is_none(), "all is taken");
        assert_eq!([(); 2].map(|()| pop(&mut queue)), [Some(3), None]);
    }
}
