//! A capacity that accounts share: bytes of single posts, or batches.
//!
//! A limit for each account does not suffice if accounts can be many: what is unfinished (a body that is still arriving, a batch) also yields if
//! another caller with less needs the space, or if it made no progress for a second.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use access::Caller;
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::account::Account;

/// For how long something unfinished may make no progress before it yields to anybody.
const IDLE: Duration = Duration::from_secs(1);

/// Why there is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The caller's own share is held.
    Own,
    /// All of the capacity for all callers, or for callers of this kind, is held.
    Server,
    /// What was held was taken away for another.
    TakenAway,
}

/// How much may be held at a time.
#[derive(Clone, Copy, Debug)]
pub struct PoolLimits {
    total: usize,
    /// How much users together, and services together, may hold: each have a part that the others cannot take.
    of_kind: usize,
    of_user: usize,
    of_service: usize,
    /// A permit for more than this is large. Large permits cannot take the last eighth.
    small: usize,
}

/// Callers that have a part of the capacity of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Users,
    Services,
    Anyone,
}

/// The capacity and what of it is held.
pub struct FairPool {
    limits: PoolLimits,
    state: Mutex<State>,
    given_back: Notify,
}

#[derive(Default)]
struct State {
    held: Held,
    unfinished: HashMap<u64, Unfinished>,
    next_id: u64,
    /// Nothing is acquired any more.
    is_closed: bool,
}

#[derive(Clone, Default)]
struct Held {
    by_account: HashMap<Account, usize>,
    /// By [`Kind`].
    by_kind: [Taken; 3],
}

#[derive(Clone, Copy, Default)]
struct Taken {
    all: usize,
    large: usize,
}

/// What yields if another needs its place.
struct Unfinished {
    account: Account,
    amount: usize,
    progressed: Instant,
    taken_away: CancellationToken,
}

/// What an account holds changes, for one permit, from one amount to another.
struct Change<'a> {
    account: &'a Account,
    from: usize,
    to: usize,
}

/// What a change exceeds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Excess {
    Account,
    Kind { is_of_large: bool },
    Total { is_of_large: bool },
}

/// A part of the capacity; dropping it gives it back.
pub struct PoolPermit {
    pool: Arc<FairPool>,
    account: Account,
    amount: usize,
    /// `None` for something that is whole.
    unfinished: Option<(u64, CancellationToken)>,
}

impl PoolLimits {
    /// A capacity of `total`, of which one user holds `of_user` at most, and never more than half of what is there for users.
    pub fn new(total: usize, of_user: usize) -> Self {
        let of_kind = total - total / 4;
        Self {
            total,
            of_kind,
            of_user: of_user.min(of_kind.div_ceil(2)),
            of_service: total.div_ceil(2),
            small: usize::MAX,
        }
    }

    /// Keeps the last eighth for what holds `small` at most.
    pub fn with_small(self, small: usize) -> Self {
        Self { small, ..self }
    }

    /// The most that one user may hold.
    pub fn of_user(&self) -> usize {
        self.of_user
    }

    fn of_account(&self, account: &Account) -> usize {
        match account {
            Account::User(_) => self.of_user,
            Account::Service(_) => self.of_service,
            Account::Anyone => self.total,
        }
    }

    fn of_kind(&self, kind: Kind) -> usize {
        match kind {
            Kind::Users | Kind::Services => self.of_kind,
            Kind::Anyone => self.total,
        }
    }

    fn is_large(&self, amount: usize) -> bool {
        amount > self.small
    }
}

impl From<&Account> for Kind {
    fn from(account: &Account) -> Self {
        match account {
            Account::User(_) => Self::Users,
            Account::Service(_) => Self::Services,
            Account::Anyone => Self::Anyone,
        }
    }
}

impl FairPool {
    /// A capacity of which nothing is held.
    #[must_use]
    pub fn new(limits: PoolLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            state: Mutex::default(),
            given_back: Notify::new(),
        })
    }

    /// Takes `amount` for something that is whole.
    pub fn try_acquire(
        self: &Arc<Self>,
        caller: &Caller,
        amount: usize,
    ) -> Result<PoolPermit, Full> {
        let account = Account::from(caller);
        self.state.lock().take(&account, amount, &self.limits)?;
        Ok(self.permit(account, amount, None))
    }

    /// Takes `amount` for something that is unfinished: it may be [taken away](PoolPermit::taken_away).
    pub fn begin(self: &Arc<Self>, caller: &Caller, amount: usize) -> Result<PoolPermit, Full> {
        let account = Account::from(caller);
        let taken_away = CancellationToken::new();
        let unfinished = Unfinished {
            account: account.clone(),
            amount,
            progressed: Instant::now(),
            taken_away: taken_away.clone(),
        };
        let mut state = self.state.lock();
        state.take(&account, amount, &self.limits)?;
        let id = state.next_id;
        state.next_id += 1;
        state.unfinished.insert(id, unfinished);
        drop(state);
        Ok(self.permit(account, amount, Some((id, taken_away))))
    }

    fn permit(
        self: &Arc<Self>,
        account: Account,
        amount: usize,
        unfinished: Option<(u64, CancellationToken)>,
    ) -> PoolPermit {
        PoolPermit {
            pool: Arc::clone(self),
            account,
            amount,
            unfinished,
        }
    }

    /// Waits until everything was given back. Nothing is acquired from then on.
    pub async fn drained(&self) {
        loop {
            let given_back = self.given_back.notified();
            if self.state.lock().close_if_empty() {
                return;
            }
            given_back.await;
        }
    }

    /// How much is held.
    pub fn used(&self) -> usize {
        self.state.lock().held.total().all
    }
}

impl Held {
    fn total(&self) -> Taken {
        let mut total = Taken::default();
        for one in &self.by_kind {
            total.all += one.all;
            total.large += one.large;
        }
        total
    }

    /// What the account of a change would hold after it.
    fn after(&self, change: &Change<'_>) -> usize {
        let held = self.by_account.get(change.account).copied();
        held.unwrap_or_default() - change.from + change.to
    }

    /// The account's own share is looked at first: an account that has used it up takes nothing from others, and is told so.
    fn excess(&self, change: &Change<'_>, limits: &PoolLimits) -> Option<Excess> {
        if self.after(change) > limits.of_account(change.account) {
            return Some(Excess::Account);
        }
        let kind = Kind::from(change.account);
        let of_kind = self.by_kind[kind as usize];
        if let Some(is_of_large) = exceeds(of_kind, limits.of_kind(kind), change, limits) {
            return Some(Excess::Kind { is_of_large });
        }
        let is_of_large = exceeds(self.total(), limits.total, change, limits)?;
        Some(Excess::Total { is_of_large })
    }

    fn apply(&mut self, change: &Change<'_>, limits: &PoolLimits) {
        let Change { account, from, to } = *change;
        match self.after(change) {
            0 => drop(self.by_account.remove(account)),
            after => drop(self.by_account.insert(account.clone(), after)),
        }
        let of_kind = &mut self.by_kind[Kind::from(account) as usize];
        of_kind.all = of_kind.all - from + to;
        of_kind.large = of_kind.large - large(from, limits) + large(to, limits);
    }
}

impl State {
    fn close_if_empty(&mut self) -> bool {
        self.is_closed |= self.held.total().all == 0;
        self.is_closed
    }

    fn take(&mut self, account: &Account, amount: usize, limits: &PoolLimits) -> Result<(), Full> {
        let change = Change {
            account,
            from: 0,
            to: amount,
        };
        self.make(&change, limits)
    }

    /// Makes a change. If there is no space, others yield, but only if that makes enough.
    fn make(&mut self, change: &Change<'_>, limits: &PoolLimits) -> Result<(), Full> {
        if self.is_closed {
            return Err(Full::Server);
        }
        if self.held.excess(change, limits).is_some() {
            let (held, yielding) = self.with_space(change, limits)?;
            self.held = held;
            for id in yielding {
                let one = self.unfinished.remove(&id);
                one.inspect(|one| one.taken_away.cancel());
            }
        }
        self.held.apply(change, limits);
        Ok(())
    }

    /// What would be held, and what would yield, so that there is space for a change: unfinished things of the accounts that hold most. As long as each
    /// belongs to an open connection, there are no more of them than connections.
    fn with_space(
        &self,
        change: &Change<'_>,
        limits: &PoolLimits,
    ) -> Result<(Held, HashSet<u64>), Full> {
        let now = Instant::now();
        let (mut held, mut yielding) = (self.held.clone(), HashSet::new());
        while let Some(excess) = held.excess(change, limits) {
            let mut candidates: Vec<_> = self
                .unfinished
                .iter()
                .filter(|(id, one)| {
                    !yielding.contains(*id) && one.is_part_of(excess, change.account, limits)
                })
                .map(|(id, one)| (Reverse(held.by_account[&one.account]), one.progressed, *id))
                .collect();
            candidates.sort_unstable();
            let mut candidates = candidates.into_iter();
            while held.excess(change, limits) == Some(excess) {
                let Some((_, progressed, id)) = candidates.next() else {
                    return Err(excess.refusal());
                };
                let one = &self.unfinished[&id];
                let is_idle = now.duration_since(progressed) >= IDLE;
                let holds_more = one.account != *change.account
                    && held.by_account[&one.account] > held.after(change);
                if is_idle || holds_more {
                    yielding.insert(id);
                    held.apply(&one.end(), limits);
                }
            }
        }
        Ok((held, yielding))
    }
}

impl Excess {
    fn refusal(self) -> Full {
        match self {
            Self::Account => Full::Own,
            Self::Kind { .. } | Self::Total { .. } => Full::Server,
        }
    }
}

/// `Some` if a change exceeds `limit`; `Some(true)` if it exceeds the part of `limit` that large permits may take.
fn exceeds(taken: Taken, limit: usize, change: &Change<'_>, limits: &PoolLimits) -> Option<bool> {
    let of_large = taken.large - large(change.from, limits) + large(change.to, limits);
    if limits.is_large(change.to) && of_large > limit - limit / 8 {
        return Some(true);
    }
    (taken.all - change.from + change.to > limit).then_some(false)
}

fn large(amount: usize, limits: &PoolLimits) -> usize {
    if limits.is_large(amount) { amount } else { 0 }
}

impl Unfinished {
    /// The change that ends it.
    fn end(&self) -> Change<'_> {
        Change {
            account: &self.account,
            from: self.amount,
            to: 0,
        }
    }

    /// Whether the excess would be less without it.
    fn is_part_of(&self, excess: Excess, account: &Account, limits: &PoolLimits) -> bool {
        let counts = |is_of_large: bool| !is_of_large || limits.is_large(self.amount);
        match excess {
            Excess::Account => self.account == *account,
            Excess::Kind { is_of_large } => {
                Kind::from(&self.account) == Kind::from(account) && counts(is_of_large)
            }
            Excess::Total { is_of_large } => counts(is_of_large),
        }
    }
}

impl PoolPermit {
    /// Takes `more` for something unfinished that has made progress. Refused, too, if the permit was taken away.
    pub fn grow(&mut self, more: usize) -> Result<(), Full> {
        let Some((id, _)) = &self.unfinished else {
            unreachable!("only what is unfinished grows");
        };
        let mut state = self.pool.state.lock();
        // Removed for the moment, so that the permit does not yield to itself.
        let mut own = state.unfinished.remove(id).ok_or(Full::TakenAway)?;
        let change = Change {
            account: &self.account,
            from: self.amount,
            to: self.amount + more,
        };
        let made = state.make(&change, &self.pool.limits);
        if made.is_ok() {
            self.amount += more;
            own.amount = self.amount;
            own.progressed = Instant::now();
        }
        state.unfinished.insert(*id, own);
        made
    }

    /// Notes progress of something unfinished.
    pub fn progressed(&self) {
        if let Some((id, _)) = &self.unfinished
            && let Some(own) = self.pool.state.lock().unfinished.get_mut(id)
        {
            own.progressed = Instant::now();
        }
    }

    /// Completes when it was taken away.
    pub async fn taken_away(&self) {
        match &self.unfinished {
            Some((_, taken_away)) => taken_away.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// From now on the permit is not taken away. Refused if it was taken away before.
    pub fn finish(&mut self) -> Result<(), Full> {
        if let Some((id, _)) = &self.unfinished {
            let own = self.pool.state.lock().unfinished.remove(id);
            own.ok_or(Full::TakenAway)?;
            self.unfinished = None;
        }
        Ok(())
    }
}

impl Drop for PoolPermit {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock();
        if let Some((id, _)) = &self.unfinished
            && state.unfinished.remove(id).is_none()
        {
            return;
        }
        let change = Change {
            account: &self.account,
            from: self.amount,
            to: 0,
        };
        state.held.apply(&change, &self.pool.limits);
        drop(state);
        self.pool.given_back.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::poll;
    use proptest::prelude::*;
    use tokio::time::advance;

    use super::*;

    const SMALL: usize = 4;

    /// 100, of which users hold 75, one of them 30, and what is large 87 of all, 66 of users.
    fn pool() -> Arc<FairPool> {
        FairPool::new(PoolLimits::new(100, 30).with_small(SMALL))
    }

    fn user(uid: i64) -> Caller {
        Caller::User(uid.try_into().unwrap())
    }

    #[tokio::test]
    async fn ones_own_share_is_told_from_the_capacity() {
        let pool = pool();
        let _own = pool.try_acquire(&user(1), 30).unwrap();
        assert_eq!(pool.try_acquire(&user(1), 1).err(), Some(Full::Own));
        let _others = pool.try_acquire(&user(2), 30).unwrap();
        assert_eq!(pool.try_acquire(&user(3), 10).err(), Some(Full::Server));
        assert_eq!(
            pool.try_acquire(&user(1), 1).err(),
            Some(Full::Own),
            "the capacity does not hide it"
        );
    }

    #[tokio::test]
    async fn small_ones_have_a_part_that_large_ones_cannot_take() {
        let pool = pool();
        let _large = [1, 2].map(|uid| pool.try_acquire(&user(uid), 30).unwrap());
        let _last = pool.try_acquire(&user(3), 6).unwrap();
        assert_eq!(pool.try_acquire(&user(3), 5).err(), Some(Full::Server));
        let _small = [4, 5].map(|uid| pool.try_acquire(&user(uid), SMALL).unwrap());
        assert_eq!(pool.try_acquire(&user(6), 2).err(), Some(Full::Server));
    }

    #[tokio::test]
    async fn what_yields_gives_its_place_to_who_holds_less() {
        let pool = pool();
        let greedy: Vec<_> = (1..=3)
            .map(|uid| pool.begin(&user(uid), 20).unwrap())
            .collect();
        let _more = pool.begin(&user(1), 6).unwrap();
        let modest = pool.begin(&user(4), 20).unwrap();
        let taken: Vec<bool> = greedy
            .iter()
            .map(|one| one.unfinished.as_ref().unwrap().1.is_cancelled())
            .collect();
        assert_eq!(taken, [true, false, false], "of whoever holds most");
        assert_eq!(pool.begin(&user(5), 21).err(), Some(Full::Server));
        drop((greedy, modest));
        assert_eq!(pool.used(), 6);
    }

    #[tokio::test]
    async fn nothing_yields_where_it_does_not_suffice() {
        let pool = pool();
        let whole = [(1, 25), (3, 30), (4, 11), (5, SMALL), (6, SMALL)];
        let _whole = whole.map(|(uid, amount)| pool.try_acquire(&user(uid), amount).unwrap());
        let arriving = pool.begin(&user(1), 1).unwrap();
        assert_eq!(pool.begin(&user(2), SMALL).err(), Some(Full::Server));
        assert!(poll!(pin!(arriving.taken_away())).is_pending());
        let _suffices = pool.begin(&user(2), 1).unwrap();
        assert!(poll!(pin!(arriving.taken_away())).is_ready());
    }

    #[tokio::test]
    async fn what_is_finished_does_not_yield() {
        let pool = pool();
        let mut held: Vec<_> = (1..=3)
            .map(|uid| pool.begin(&user(uid), 22).unwrap())
            .collect();
        held.iter_mut().for_each(|one| one.finish().unwrap());
        assert_eq!(pool.begin(&user(4), 5).err(), Some(Full::Server));
    }

    #[tokio::test(start_paused = true)]
    async fn what_makes_no_progress_yields_to_anybody() {
        let pool = pool();
        let mut first = pool.begin(&user(1), 30).unwrap();
        let second = pool.begin(&user(2), 30).unwrap();
        assert_eq!(pool.begin(&user(3), 30).err(), Some(Full::Server));
        advance(IDLE / 2).await;
        first.grow(0).unwrap();
        advance(IDLE / 2).await;
        let _third = pool.begin(&user(3), 30).unwrap();
        assert!(poll!(pin!(second.taken_away())).is_ready());
        assert!(poll!(pin!(first.taken_away())).is_pending());
        let mut second = second;
        assert!(second.grow(1).is_err());
        assert!(second.finish().is_err());
        // One of its own account yields, too.
        advance(IDLE).await;
        let _own = pool.begin(&user(1), 1).unwrap();
        assert!(first.finish().is_err());
    }

    #[tokio::test]
    async fn draining_waits_for_everything_and_then_nothing_is_acquired() {
        let pool = pool();
        let held = pool.try_acquire(&user(1), 1).unwrap();
        let mut drained = pin!(pool.drained());
        assert!(poll!(&mut drained).is_pending());
        let more = pool.begin(&user(2), 1).unwrap();
        drop(held);
        assert!(poll!(&mut drained).is_pending());
        drop(more);
        drained.await;
        assert_eq!(pool.try_acquire(&user(1), 1).err(), Some(Full::Server));
    }

    proptest! {
        /// Whatever callers do, the books are right: nothing is held by nobody, and no limit is exceeded.
        #[test]
        fn the_books_balance(steps in proptest::collection::vec((1..6_i64, 0..4_u8, 1..20_usize), 1..200)) {
            let pool = pool();
            let mut permits: Vec<PoolPermit> = Vec::new();
            for (uid, step, amount) in steps {
                match step {
                    0 => permits.extend(pool.try_acquire(&user(uid), amount).ok()),
                    1 => permits.extend(pool.begin(&user(uid), amount).ok()),
                    2 => {
                        let at = amount % permits.len().max(1);
                        if let Some(one) = permits.get_mut(at).filter(|one| one.unfinished.is_some()) {
                            let _ = one.grow(amount);
                        }
                    }
                    _ => {
                        if !permits.is_empty() {
                            let at = amount % permits.len();
                            drop(permits.swap_remove(at));
                        }
                    }
                }
                let state = pool.state.lock();
                let by_account = &state.held.by_account;
                let held: usize = by_account.values().sum();
                prop_assert_eq!(held, state.held.total().all);
                prop_assert!(held <= 75);
                prop_assert!(state.held.total().large <= 66);
                prop_assert!(by_account.values().all(|one| (1..=30).contains(one)));
            }
            drop(permits);
            let state = pool.state.lock();
            prop_assert!(state.held.by_account.is_empty() && state.unfinished.is_empty());
            prop_assert_eq!(state.held.total().large, 0);
        }
    }
}
