//! Reads a user's memberships from MySQL, with the positions that they reflect.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Weak},
};

use message_store::{MessageStore, Sink, StoreError};
use parking_lot::Mutex;
use schemas::{Partition, UserId};
use tokio::sync::OwnedMutexGuard;

use crate::{
    expiring_map,
    hub::{Span, StoredMemberships},
};

/// How many memberships one statement reads.
const AT_ONCE: u32 = 1_000;

/// Lets one connection of a user read at a time. By the time that the others may read, the hub knows the user.
#[derive(Default)]
pub(crate) struct Turns(Mutex<HashMap<UserId, Weak<tokio::sync::Mutex<()>>>>);

impl Turns {
    /// Waits for the connections of the user that asked before.
    pub(crate) async fn next(&self, uid: UserId) -> OwnedMutexGuard<()> {
        let of_user = {
            let mut all = self.0.lock();
            let known = all.get(&uid).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let new = Arc::default();
                let is_over = |of_user: &Weak<_>| of_user.strong_count() == 0;
                expiring_map::insert(&mut all, uid, Arc::downgrade(&new), is_over);
                new
            })
        };
        of_user.lock_owned().await
    }
}

/// Reads positions and rows in one snapshot (PROTOCOL M5).
///
/// # Errors
/// MySQL does not answer.
pub(crate) async fn read(
    store: &MessageStore,
    events_topic: &str,
    uid: UserId,
) -> Result<StoredMemberships, StoreError> {
    let mut tx = store.snapshot(store.layout().shard_of_user(uid)).await?;
    let partitions: Vec<Partition> = Partition::all().collect();
    let applied = tx
        .resume_offsets(Sink::Contacts, events_topic, &partitions)
        .await?;
    let mut spans = BTreeMap::new();
    let mut after = None;
    loop {
        let rows = tx.memberships(uid, after, AT_ONCE).await?;
        spans.extend(rows.iter().map(|row| (row.gid, Span::from(row))));
        if rows.len() < AT_ONCE as usize {
            break;
        }
        after = rows.last().map(|row| row.gid);
    }
    let applied = applied
        .into_iter()
        .map(|(partition, at)| (partition, at.next));
    Ok(StoredMemberships {
        spans,
        applied: applied.collect(),
    })
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::poll;

    use super::*;

    #[tokio::test]
    async fn one_connection_of_a_user_reads_at_a_time() {
        let turns = Turns::default();
        let [one, other] = [1, 2].map(|uid| UserId::try_from(uid).unwrap());
        let first = turns.next(one).await;
        let mut second = pin!(turns.next(one));
        assert!(poll!(&mut second).is_pending());
        let _of_other = turns.next(other).await;
        drop(first);
        second.await;
    }
}
