//! What users say about each other, as far as MySQL and the tail of the log have it: who is told that somebody types, or is there.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use message_store::{MessageStore, StoreError};
use schemas::{Ordinal, TableNumber, UserId};

/// A row is read again after this.
const KEPT: Duration = Duration::from_secs(30);
/// Beyond so many all are forgotten.
const MAX: usize = 100_000;

/// How a user stands to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// He has not written to him.
    Stranger,
    /// He has.
    Contact,
    /// He refuses his messages.
    Blocked,
}

#[derive(Default)]
pub(crate) struct Contacts {
    known: Mutex<HashMap<(UserId, UserId), (Standing, Instant)>>,
}

impl Contacts {
    /// How `uid` stands to `other`; `None` where MySQL does not say.
    pub(crate) async fn standing(
        &self,
        store: &MessageStore,
        uid: UserId,
        other: UserId,
    ) -> Option<Standing> {
        let known = self.known().get(&(uid, other)).copied();
        if let Some((standing, at)) = known
            && at.elapsed() < KEPT
        {
            return Some(standing);
        }
        match read(store, uid, other).await {
            Ok(standing) => {
                self.keep(uid, other, standing);
                Some(standing)
            }
            Err(error) => {
                tracing::debug!(%error, "a contact is not read");
                None
            }
        }
    }

    /// An event says whether `uid` blocks `other`, before MySQL does.
    pub(crate) fn learn(&self, uid: UserId, other: UserId, blocks: bool) {
        match blocks {
            true => self.keep(uid, other, Standing::Blocked),
            false => drop(self.known().remove(&(uid, other))),
        }
    }

    fn keep(&self, uid: UserId, other: UserId, standing: Standing) {
        let mut known = self.known();
        if known.len() >= MAX {
            known.clear();
        }
        known.insert((uid, other), (standing, Instant::now()));
    }

    fn known(&self) -> MutexGuard<'_, HashMap<(UserId, UserId), (Standing, Instant)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read(store: &MessageStore, uid: UserId, other: UserId) -> Result<Standing, StoreError> {
    let shard = store.layout().shard_of(TableNumber::of_user(uid));
    let row = { store.snapshot(shard).await? }.contact(uid, other).await?;
    Ok(match row {
        Some(row) if row.flags().blocked => Standing::Blocked,
        Some(row) if row.contact.own_n > Ordinal::ZERO => Standing::Contact,
        _ => Standing::Stranger,
    })
}
