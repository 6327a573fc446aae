//! Rebuilds users whether or not they are complete in Redis, for an operator who does not trust its contents.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use message_store::ContactRow;
use schemas::{PartitionMap, UserId};
use tokio::time::Instant;
use unread_store::{BeginOutcome, Connection, PeerOrdinals, Rebuild, SharedConnections};
use uuid::Uuid;

use crate::{
    ContactCounts, UnreadRebuildError,
    backoff::Backoff,
    barrier::{Barrier, Contacts, Ends},
    counts,
};

/// Once this many rows are read, the rows of further users are read later.
const ENOUGH_ROWS: usize = 10_000;

/// A rebuild of some users of one database. Events apply to the shadow states, and readers read the complete ones until they are replaced.
pub struct ShadowRebuild {
    begun: Vec<Rebuild>,
    in_progress: usize,
    ends: Ends,
    redis: Arc<SharedConnections>,
    barrier: Arc<Barrier>,
    deadline: Instant,
}

/// The rows of some of the users, which contain all events before the beginning of the rebuild.
pub struct ShadowRows {
    /// The users.
    pub uids: Vec<UserId>,
    /// All contact rows of these users.
    pub rows: Vec<ContactRow>,
    begun: Vec<Rebuild>,
}

impl ShadowRebuild {
    pub(crate) async fn begin(
        redis: Arc<SharedConnections>,
        barrier: Arc<Barrier>,
        uids: &[UserId],
        lease_ms: u64,
        deadline: Instant,
    ) -> Result<Self, UnreadRebuildError> {
        let mut begun = Vec::with_capacity(uids.len());
        let (mut complete, mut in_progress) = (Vec::new(), 0);
        // Users of one table are in one slot.
        let slot = uids.first().map_or(0, |uid| redis.store().index_of(*uid));
        let nonce = Uuid::new_v4();
        let begin =
            |redis: Connection| async move { redis.begin_rebuilds(uids, nonce, lease_ms).await };
        for (uid, begin) in redis.call(slot, begin).await? {
            match begin {
                BeginOutcome::Begun(rebuild) => begun.push(rebuild),
                BeginOutcome::Complete => complete.push(uid),
                // The process that has the lease rebuilds the user.
                BeginOutcome::InProgress { .. } => in_progress += 1,
            }
        }
        let complete = &complete;
        let begin = |redis: Connection| async move {
            redis.begin_shadow_rebuilds(complete, lease_ms).await
        };
        begun.extend(redis.call(slot, begin).await?);
        // The ends are read only now: events applied to Redis before this moment may have missed the shadow states, so the rows must contain them.
        let ends = barrier.ends(&mut Backoff::until(deadline)).await?;
        Ok(Self {
            begun,
            in_progress,
            ends,
            redis,
            barrier,
            deadline,
        })
    }

    /// How many users are being rebuilt by another process; they are left to it.
    #[must_use]
    pub fn in_progress(&self) -> usize {
        self.in_progress
    }

    /// The ends of the log when the rebuild began: the rows contain all events before them.
    #[must_use]
    pub fn ends(&self) -> &PartitionMap<i64> {
        &self.ends
    }

    /// The rows of the next users, `limit` at most; `None` after the last. Users whose ordinals are being looked up come after the others.
    ///
    /// # Errors
    /// [`UnreadRebuildError`].
    pub async fn next(&mut self, limit: usize) -> Result<Option<ShadowRows>, UnreadRebuildError> {
        let mut backoff = Backoff::until(self.deadline);
        while !self.begun.is_empty() {
            let next = self.begun.iter().rev().take(limit).map(Rebuild::uid);
            let uids: Vec<UserId> = next.collect();
            let contacts = self.barrier.contacts(&self.ends, &uids, &mut backoff);
            let contacts = contacts.await?;
            let is_open = |rebuild: &Rebuild| contacts.open.contains(&rebuild.uid());
            self.begun.sort_by_key(|rebuild| !is_open(rebuild));
            if contacts.open.len() < uids.len() {
                let (uids, rows) = rows_of_some(contacts).await?;
                let is_read = |rebuild: &mut Rebuild| uids.contains(&rebuild.uid());
                let begun = self.begun.extract_if(.., is_read).collect();
                let uids = uids.into_iter().collect();
                return Ok(Some(ShadowRows { uids, rows, begun }));
            }
            let timed_out = |_| UnreadRebuildError::UnresolvedRead;
            backoff.pause().await.map_err(timed_out)?;
        }
        Ok(None)
    }

    /// Replaces the users' states with the shadow states, each atomically. Returns the users that were dropped or taken over meanwhile.
    ///
    /// # Errors
    /// [`UnreadRebuildError`]; some states may be replaced.
    pub async fn complete(&self, users: ShadowRows) -> Result<Vec<UserId>, UnreadRebuildError> {
        let mut counts = BTreeMap::new();
        counts::add(&mut counts, &users.rows);
        let mut incomplete = Vec::new();
        for rebuild in users.begun {
            let connection = self.redis.of(rebuild.uid()).await?;
            let counts: ContactCounts = counts.remove(&rebuild.uid()).unwrap_or_default();
            let peers: Vec<(UserId, PeerOrdinals)> = counts.peers.into_iter().collect();
            if !connection.complete_rebuild(&rebuild, &peers).await? {
                incomplete.push(rebuild.uid());
            }
        }
        Ok(incomplete)
    }
}

/// All rows of the first users: as many users as have about [`ENOUGH_ROWS`] together, at least one.
async fn rows_of_some(
    mut contacts: Contacts,
) -> Result<(BTreeSet<UserId>, Vec<ContactRow>), UnreadRebuildError> {
    let (mut uids, mut rows) = (BTreeSet::new(), Vec::new());
    while let Some(page) = contacts.next().await? {
        rows.extend(page.rows);
        uids.extend(page.ended);
        if rows.len() > ENOUGH_ROWS && !uids.is_empty() {
            break;
        }
    }
    rows.retain(|row| uids.contains(&row.contact.uid));
    Ok((uids, rows))
}
