//! Which groups are dissolved, as far as MySQL and the tail of the log have it. Their members stay members, but nobody is told that a user types
//! there.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use message_store::StoreError;
use parking_lot::Mutex;
use schemas::{
    GroupId,
    event::{Body, Event},
};
use tokio::time::timeout;

use crate::{expiring_map, shared_reads::SharedReads};

/// A row is read again after this.
const ROW_TTL: Duration = Duration::from_secs(30);
/// How long a dissolution from an event overrides the row, however far MySQL lags.
const DISSOLVED_TTL: Duration = Duration::from_secs(3_600);
/// How long MySQL may take; after that it is not known whether a group is dissolved.
const READ_TIME: Duration = Duration::from_secs(1);

pub(crate) struct DissolvedGroups {
    reads: Arc<SharedReads>,
    groups: Mutex<Groups>,
}

#[derive(Clone, Copy)]
struct Known {
    is_dissolved: bool,
    until: Instant,
}

#[derive(Default)]
struct Groups(HashMap<GroupId, Known>);

impl DissolvedGroups {
    pub(crate) fn new(reads: Arc<SharedReads>) -> Self {
        Self {
            reads,
            groups: Mutex::default(),
        }
    }

    /// Asks MySQL if it is not known here. `None` if MySQL does not answer in time.
    pub(crate) async fn contain(&self, gid: GroupId) -> Option<bool> {
        let begun = Instant::now();
        let known = self.groups.lock().get(gid, begun);
        if known.is_some() {
            return known;
        }
        match timeout(READ_TIME, self.read(gid)).await {
            Ok(Ok(is_dissolved)) => Some(self.groups.lock().take_row(gid, is_dissolved, begun)),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a group is not read");
                None
            }
            Err(_elapsed) => None,
        }
    }

    /// What is known here, without asking MySQL.
    pub(crate) fn known(&self, gid: GroupId) -> Option<bool> {
        self.groups.lock().get(gid, Instant::now())
    }

    /// Takes from an event, before MySQL has it, that a group is dissolved.
    pub(crate) fn learn(&self, event: &Event) {
        if let Body::GroupChange(change) = &event.body
            && change.settings.dissolved
        {
            self.groups.lock().learn(change.gid, Instant::now());
        }
    }

    async fn read(&self, gid: GroupId) -> Result<bool, StoreError> {
        let shard = self.reads.store().layout().shard_of(gid.partition());
        let (mut tx, _permit) = self.reads.snapshot(shard).await?;
        let rows = tx.groups(&[gid]).await?;
        let mut settings = rows.iter().filter_map(|row| row.settings.as_ref());
        Ok(settings.any(|settings| settings.dissolved))
    }
}

impl Groups {
    fn get(&self, gid: GroupId, now: Instant) -> Option<bool> {
        let known = self.0.get(&gid).filter(|known| now < known.until)?;
        Some(known.is_dissolved)
    }

    /// Keeps a row whose read began at `begun`, unless the group is known to be dissolved: that is for good. Returns what counts.
    fn take_row(&mut self, gid: GroupId, is_dissolved: bool, begun: Instant) -> bool {
        if self.get(gid, begun) == Some(true) {
            return true;
        }
        self.insert(gid, is_dissolved, ROW_TTL, begun);
        is_dissolved
    }

    fn learn(&mut self, gid: GroupId, now: Instant) {
        self.insert(gid, true, DISSOLVED_TTL, now);
    }

    fn insert(&mut self, gid: GroupId, is_dissolved: bool, ttl: Duration, now: Instant) {
        let known = Known {
            is_dissolved,
            until: now + ttl,
        };
        expiring_map::insert(&mut self.0, gid, known, |known| known.until <= now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_row_undoes_a_dissolution_that_an_event_said() {
        let gid = GroupId::try_from(64).unwrap();
        let begun = Instant::now();
        let mut groups = Groups::default();
        assert_eq!(groups.get(gid, begun), None);
        assert!(!groups.take_row(gid, false, begun));
        assert_eq!(groups.get(gid, begun), Some(false));
        groups.learn(gid, begun);
        assert_eq!(groups.get(gid, begun), Some(true));
        // A row that was read before the event, or from a MySQL that lags.
        for read in [begun, begun + 100 * ROW_TTL] {
            assert!(groups.take_row(gid, false, read));
            assert_eq!(groups.get(gid, read), Some(true));
        }
        let expired = begun + DISSOLVED_TTL;
        assert_eq!(groups.get(gid, expired), None);
        assert!(groups.take_row(gid, true, expired));
        assert_eq!(groups.get(gid, expired + ROW_TTL), None);
    }
}
