//! What users say about each other, as far as MySQL and the tail of the log have it: who is told that somebody types, or is there.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use message_store::{MessageStore, StoreError};
use schemas::{
    Ordinal, Recipient, UserId,
    event::{Body, Event},
};

use crate::expiring_map;

/// A row is read again after this.
const STANDING_TTL: Duration = Duration::from_secs(30);
/// So long after an event the row may not say it yet.
const PROJECTED_IN: Duration = Duration::from_secs(2);

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

/// Each with the time from which on the row is read again.
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
        if let Some((standing, until)) = known
            && Instant::now() < until
        {
            return Some(standing);
        }
        match self.read(uid, other).await {
            Ok(standing) => {
                self.insert((uid, other), standing, STANDING_TTL);
                Some(standing)
            }
            Err(error) => {
                tracing::debug!(%error, "a contact is not read");
                None
            }
        }
    }

    /// An event says before MySQL does whether a user blocks another one, or that he has written to him. Returns the user whom others may see now, or no more.
    pub(crate) fn learn(&self, event: &Event) -> Option<UserId> {
        let (uid, other, standing, ttl) = match &event.body {
            Body::ContactChange(change) => {
                let known = self.known(change.uid, change.peer);
                let (standing, ttl) = match (change.flags.blocked, known) {
                    (true, _) => (Standing::Blocked, STANDING_TTL),
                    // Whether he has written is in the row, which may still say that he blocks him.
                    (false, None | Some(Standing::Blocked)) => (Standing::Stranger, PROJECTED_IN),
                    (false, Some(Standing::Stranger | Standing::Contact)) => return None,
                };
                (change.uid, change.peer, standing, ttl)
            }
            Body::Message(message) => {
                let Recipient::User(peer) = message.to else {
                    return None;
                };
                let is_first = message.n.get() == 1;
                match self.known(message.srcid, peer) {
                    None if is_first => {}
                    Some(Standing::Stranger) => {}
                    None | Some(Standing::Contact | Standing::Blocked) => return None,
                }
                (message.srcid, peer, Standing::Contact, STANDING_TTL)
            }
            _ => return None,
        };
        self.insert((uid, other), standing, ttl);
        Some(uid)
    }

    fn known(&self, uid: UserId, other: UserId) -> Option<Standing> {
        let standings = self.standings();
        standings.get(&(uid, other)).map(|(standing, _)| *standing)
    }

    async fn read(&self, uid: UserId, other: UserId) -> Result<Standing, StoreError> {
        let shard = self.store.layout().shard_of_user(uid);
        let mut tx = self.store.snapshot(shard).await?;
        Ok(match tx.contact(uid, other).await? {
            Some(row) if row.flags().blocked => Standing::Blocked,
            Some(row) if row.contact.own_n > Ordinal::ZERO => Standing::Contact,
            _ => Standing::Stranger,
        })
    }

    fn insert(&self, key: (UserId, UserId), standing: Standing, ttl: Duration) {
        let now = Instant::now();
        let has_expired = |(_, until): &(_, Instant)| *until <= now;
        let value = (standing, now + ttl);
        expiring_map::insert(&mut self.standings(), key, value, has_expired);
    }

    fn standings(&self) -> MutexGuard<'_, Standings> {
        self.standings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
