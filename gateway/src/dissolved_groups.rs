//! Which groups are dissolved, as far as MySQL has it. Of one that was dissolved before the rings begin neither they nor the rows of memberships say so.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use message_store::{MessageStore, StoreError};
use schemas::GroupId;
use tokio::time::timeout;

use crate::expiring_map;

/// A row is read again after this: sooner than the rings forget that a group is dissolved.
const ROW_TTL: Duration = Duration::from_secs(30);
/// How long MySQL may take; after that it is not known.
const READ_TIME: Duration = Duration::from_secs(1);

pub(crate) struct DissolvedGroups {
    store: MessageStore,
    known: Mutex<HashMap<GroupId, Known>>,
}

#[derive(Clone, Copy)]
struct Known {
    is_dissolved: bool,
    until: Instant,
}

impl DissolvedGroups {
    pub(crate) fn new(store: MessageStore) -> Self {
        Self {
            store,
            known: Mutex::default(),
        }
    }

    /// `None` where MySQL does not answer in time.
    pub(crate) async fn contain(&self, gid: GroupId) -> Option<bool> {
        let begun = Instant::now();
        let known = self.known().get(&gid).copied();
        if let Some(known) = known.filter(|known| begun < known.until) {
            return Some(known.is_dissolved);
        }
        let is_dissolved = match timeout(READ_TIME, self.read(gid)).await {
            Ok(Ok(is_dissolved)) => is_dissolved,
            Ok(Err(error)) => {
                tracing::debug!(%error, "a group is not read");
                return None;
            }
            Err(_elapsed) => return None,
        };
        let known = Known {
            is_dissolved,
            until: begun + ROW_TTL,
        };
        let has_expired = |known: &Known| known.until <= begun;
        expiring_map::insert(&mut self.known(), gid, known, has_expired);
        Some(is_dissolved)
    }

    async fn read(&self, gid: GroupId) -> Result<bool, StoreError> {
        let shard = self.store.layout().shard_of(gid.partition());
        let mut tx = self.store.snapshot(shard).await?;
        let rows = tx.groups(&[gid]).await?;
        let mut settings = rows.iter().filter_map(|row| row.settings.as_ref());
        Ok(settings.any(|settings| settings.dissolved))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<GroupId, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
