//! The bytes that the lines and results of batches hold. A batch waits for them, so that its client is slowed down and not refused.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use access::Caller;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use crate::{account::Account, fair_pool::Full};

/// The bytes of all batches: a quarter for users, three quarters for everybody else.
pub struct ByteBudget {
    users: Arc<Section>,
    others: Arc<Section>,
    of_user_bytes: u32,
    /// What an account still has of its share, as long as it holds any.
    accounts: Mutex<HashMap<Account, Weak<Semaphore>>>,
}

/// What an account may take bytes of: its own share, and a section that it has in common with others.
pub struct AccountBudget {
    own: Arc<Semaphore>,
    section: Arc<Section>,
}

struct Section {
    free: Arc<Semaphore>,
    capacity_bytes: u32,
    /// How many wait for others to give something back.
    waiting: AtomicUsize,
    contended: Notify,
}

/// Bytes that are held; dropping the permit gives them back.
pub struct BytePermit {
    own: OwnedSemaphorePermit,
    section: OwnedSemaphorePermit,
}

impl ByteBudget {
    /// A user holds at most `of_user_bytes`, and never more than half of the part of users; a service at most half of the others'.
    pub fn new(capacity_bytes: u32, of_user_bytes: u32) -> Self {
        let users_bytes = capacity_bytes / 4;
        Self {
            users: Section::new(users_bytes),
            others: Section::new(capacity_bytes - users_bytes),
            of_user_bytes: of_user_bytes.min(users_bytes.div_ceil(2)),
            accounts: Mutex::default(),
        }
    }

    /// The budget of a caller, the same one for all batches of an account.
    pub fn of(&self, caller: &Caller) -> AccountBudget {
        let account = Account::from(caller);
        let (section, share_bytes) = match &account {
            Account::User(_) => (&self.users, self.of_user_bytes),
            Account::Service(_) => (&self.others, self.others.capacity_bytes.div_ceil(2)),
            Account::Anyone => (&self.others, self.others.capacity_bytes),
        };
        let mut accounts = self.accounts.lock();
        let own = accounts.get(&account).and_then(Weak::upgrade);
        let own = own.unwrap_or_else(|| {
            accounts.retain(|_, own| own.strong_count() > 0);
            let own = Arc::new(Semaphore::new(share_bytes as usize));
            accounts.insert(account, Arc::downgrade(&own));
            own
        });
        AccountBudget {
            own,
            section: Arc::clone(section),
        }
    }

    /// Waits until everything was given back. Nothing is acquired meanwhile, nor until the permits are dropped.
    pub async fn drained(&self) -> [OwnedSemaphorePermit; 2] {
        let (users, others) = tokio::join!(self.users.drained(), self.others.drained());
        [users, others]
    }

    /// The most that one user may hold.
    pub fn of_user(&self) -> usize {
        self.of_user_bytes as usize
    }

    /// The bytes that are held.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.users.used_bytes() + self.others.used_bytes()
    }
}

impl AccountBudget {
    /// Acquires bytes if they are free now.
    pub fn try_acquire(&self, bytes: u32) -> Option<BytePermit> {
        let own = Arc::clone(&self.own).try_acquire_many_owned(bytes).ok()?;
        let section = Arc::clone(&self.section.free).try_acquire_many_owned(bytes);
        let section = section.ok()?;
        Some(BytePermit { own, section })
    }

    /// Waits for free bytes, first come, first served, until the deadline. More than the share is never free.
    pub async fn acquire(&self, bytes: u32, deadline: Instant) -> Result<BytePermit, Full> {
        let own = timeout_at(deadline, acquire(&self.own, bytes)).await;
        let own = own.map_err(|_elapsed| Full::Own)?;
        let section = Arc::clone(&self.section.free).try_acquire_many_owned(bytes);
        let section = match section {
            Ok(section) => section,
            Err(_none_free) => {
                let _waiter = Waiter::new(&self.section);
                let section = timeout_at(deadline, acquire(&self.section.free, bytes)).await;
                section.map_err(|_elapsed| Full::Server)?
            }
        };
        Ok(BytePermit { own, section })
    }

    /// Completes as soon as somebody waits for what others hold.
    pub async fn contended(&self) {
        loop {
            let contended = self.section.contended.notified();
            if self.section.waiting.load(Ordering::Acquire) > 0 {
                return;
            }
            contended.await;
        }
    }
}

impl Section {
    fn new(capacity_bytes: u32) -> Arc<Self> {
        Arc::new(Self {
            free: Arc::new(Semaphore::new(capacity_bytes as usize)),
            capacity_bytes,
            waiting: AtomicUsize::new(0),
            contended: Notify::new(),
        })
    }

    async fn drained(&self) -> OwnedSemaphorePermit {
        acquire(&self.free, self.capacity_bytes).await
    }

    fn used_bytes(&self) -> usize {
        self.capacity_bytes as usize - self.free.available_permits()
    }
}

async fn acquire(free: &Arc<Semaphore>, bytes: u32) -> OwnedSemaphorePermit {
    let acquired = Arc::clone(free).acquire_many_owned(bytes).await;
    acquired.expect("the semaphore is never closed")
}

/// Counts a waiter until it is dropped, also if it stops waiting.
struct Waiter<'a>(&'a Section);

impl<'a> Waiter<'a> {
    fn new(section: &'a Section) -> Self {
        section.waiting.fetch_add(1, Ordering::AcqRel);
        section.contended.notify_waiters();
        Self(section)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

impl BytePermit {
    /// Splits off a part; `None` if the permit holds no more than that.
    pub fn split(&mut self, bytes: usize) -> Option<Self> {
        Some(Self {
            own: self.own.split(bytes)?,
            section: self.section.split(bytes)?,
        })
    }

    /// Adds one of the same account.
    pub fn merge(&mut self, other: Self) {
        self.own.merge(other.own);
        self.section.merge(other.section);
    }

    /// Gives back up to `bytes`.
    pub fn release(&mut self, bytes: usize) {
        drop(self.split(bytes.min(self.bytes())));
    }

    /// The bytes that it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.section.num_permits()
    }
}

/// What a record in flight takes beside its key and value: the client library's own fields, the delivery handle, and what the allocator rounds up.
const OVERHEAD_BYTES: usize = 512;

/// The bytes that a record with a key and value of `bytes` takes while it is in flight.
pub fn cost_bytes(bytes: usize) -> u32 {
    u32::try_from(bytes + OVERHEAD_BYTES).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, time::Duration};

    use futures::poll;

    use super::*;

    fn user(uid: i64) -> Caller {
        Caller::User(uid.try_into().unwrap())
    }

    #[test]
    fn bytes_come_back_when_they_are_released_or_dropped() {
        let budget = ByteBudget::new(100, 100);
        let of_anyone = budget.of(&Caller::Anyone);
        let mut permit = of_anyone.try_acquire(60).unwrap();
        assert!(of_anyone.try_acquire(16).is_none());
        permit.release(30);
        assert_eq!(budget.used_bytes(), 30);
        permit.release(40);
        assert_eq!(budget.used_bytes(), 0);
        drop(permit);
        assert!(of_anyone.try_acquire(75).is_some());
    }

    #[tokio::test]
    async fn no_account_takes_everything() {
        // 100 for users, 60 for one of them.
        let budget = ByteBudget::new(400, 60);
        assert_eq!(budget.of_user_bytes, 50, "half of it at most");
        let greedy = budget.of(&user(1));
        let held = greedy.try_acquire(50).unwrap();
        // Another batch of the same user, which waits for the user's own bytes: no other account is the reason.
        let again = budget.of(&user(1));
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut waiting = pin!(again.acquire(1, deadline));
        assert!(poll!(&mut waiting).is_pending());
        let other = budget.of(&user(2));
        let mut contended = pin!(other.contended());
        assert!(poll!(&mut contended).is_pending());
        let _others = other.try_acquire(50).unwrap();
        let third = budget.of(&user(3));
        {
            let mut waiting = pin!(third.acquire(1, deadline));
            assert!(poll!(&mut waiting).is_pending());
            assert!(poll!(&mut contended).is_ready());
        }
        assert!(poll!(pin!(other.contended())).is_pending(), "it gave up");
        let now = Instant::now();
        assert_eq!(again.acquire(1, now).await.err(), Some(Full::Own));
        assert_eq!(third.acquire(1, now).await.err(), Some(Full::Server));
        drop(held);
        let _again = waiting.await.unwrap();
    }

    #[test]
    fn accounts_that_hold_nothing_are_forgotten() {
        let budget = ByteBudget::new(400, 60);
        let held = budget.of(&user(1)).try_acquire(10).unwrap();
        for uid in 2..100 {
            drop(budget.of(&user(uid)));
        }
        assert_eq!(budget.accounts.lock().len(), 2);
        assert!(budget.of(&user(1)).try_acquire(41).is_none());
        drop(held);
        assert!(budget.of(&user(1)).try_acquire(41).is_some());
    }

    #[tokio::test]
    async fn draining_waits_for_everything() {
        let budget = ByteBudget::new(100, 100);
        let of_anyone = budget.of(&Caller::Anyone);
        let permit = of_anyone.try_acquire(1).unwrap();
        let mut draining = pin!(budget.drained());
        assert!(poll!(&mut draining).is_pending());
        drop(permit);
        let drained = draining.await;
        assert!(of_anyone.try_acquire(1).is_none());
        drop(drained);
    }
}
