//! What users say about each other, as far as MySQL and the tail of the log have it: who is told that somebody types, or is there.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use message_store::{MessageStore, StoreError};
use schemas::{Ordinal, TableNumber, UserId};

use crate::expiring_map;

/// A row is read again after this.
const STANDING_TTL: Duration = Duration::from_secs(30);

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

type Standings = HashMap<(UserId, UserId), (Standing, Instant)>;

pub(crate) struct Contacts {
    store: MessageStore,
    standings: Mutex<Standings>,
}

impl Contacts {
    pub(crate) fn new(store: MessageStore) -> Self {
        Self {
            store,
            standings: Mutex::default(),
        }
    }

    /// How `uid` stands to `other`; `None` where MySQL does not say.
    pub(crate) async fn standing(&self, uid: UserId, other: UserId) -> Option<Standing> {
        let known = self.standings().get(&(uid, other)).copied();
        if let Some((standing, at)) = known
            && at.elapsed() < STANDING_TTL
        {
            return Some(standing);
        }
        match self.read(uid, other).await {
            Ok(standing) => {
                self.insert(uid, other, standing);
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
            true => self.insert(uid, other, Standing::Blocked),
            false => drop(self.standings().remove(&(uid, other))),
        }
    }

    async fn read(&self, uid: UserId, other: UserId) -> Result<Standing, StoreError> {
        let shard = self.store.layout().shard_of(TableNumber::of_user(uid));
        let mut tx = self.store.snapshot(shard).await?;
        Ok(match tx.contact(uid, other).await? {
            Some(row) if row.flags().blocked => Standing::Blocked,
            Some(row) if row.contact.own_n > Ordinal::ZERO => Standing::Contact,
            _ => Standing::Stranger,
        })
    }

    fn insert(&self, uid: UserId, other: UserId, standing: Standing) {
        let has_expired = |(_, at): &(_, Instant)| at.elapsed() >= STANDING_TTL;
        let (key, value) = ((uid, other), (standing, Instant::now()));
        expiring_map::insert(&mut self.standings(), key, value, has_expired);
    }

    fn standings(&self) -> MutexGuard<'_, Standings> {
        self.standings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
