//! Users made anew whether Redis has them or not, for whoever does not trust what it has.

use std::{collections::BTreeMap, sync::Arc};

use message_store::ContactRow;
use schemas::{Partition, UserId};
use tokio::time::Instant;
use unread_store::{BeginOutcome, PeerOrdinals, Rebuild, SharedConnection};

use crate::{
    UnreadRebuildError,
    barrier::{Barrier, Ends},
    counts,
    patience::Patience,
};

/// A rebuild of some users of one database that has begun: events apply to what is being built, and readers see what there was.
pub struct Anew {
    begun: Vec<Rebuild>,
    ends: Ends,
    redis: Arc<SharedConnection>,
    barrier: Arc<Barrier>,
    give_up: Instant,
}

/// The rows of some of them, which hold everything that was on the log when the rebuild began.
pub struct AnewRows {
    /// Their users.
    pub uids: Vec<UserId>,
    /// What the database has of them.
    pub rows: Vec<ContactRow>,
    begun: Vec<Rebuild>,
}

impl Anew {
    pub(crate) async fn begin(
        redis: Arc<SharedConnection>,
        barrier: Arc<Barrier>,
        uids: &[UserId],
        lease_ms: u64,
        give_up: Instant,
    ) -> Result<Self, UnreadRebuildError> {
        let connection = redis.get().await?;
        let mut begun = Vec::with_capacity(uids.len());
        let mut complete = Vec::new();
        for (uid, begin) in connection.begin_rebuilds(uids, lease_ms).await? {
            match begin {
                BeginOutcome::Begun(rebuild) => begun.push(rebuild),
                BeginOutcome::Complete => complete.push(uid),
                // Whoever is at it makes the user anew.
                BeginOutcome::InProgress { .. } => {}
            }
        }
        begun.extend(
            connection
                .begin_shadow_rebuilds(&complete, lease_ms)
                .await?,
        );
        // Only now: whatever is applied to Redis before this moment may have missed what is built, so the rows must have it.
        let ends = barrier.ends(&mut Patience::until(give_up)).await?;
        Ok(Self {
            begun,
            ends,
            redis,
            barrier,
            give_up,
        })
    }

    /// Where the log ended when it began: the rows hold at least that.
    #[must_use]
    pub fn ends(&self) -> &BTreeMap<Partition, i64> {
        &self.ends
    }

    /// The rows of the next users; `None` after the last.
    ///
    /// # Errors
    /// [`UnreadRebuildError`].
    pub async fn next(&mut self, most: usize) -> Result<Option<AnewRows>, UnreadRebuildError> {
        let begun = self.begun.split_off(self.begun.len().saturating_sub(most));
        if begun.is_empty() {
            return Ok(None);
        }
        let uids: Vec<UserId> = begun.iter().map(Rebuild::uid).collect();
        let mut patience = Patience::until(self.give_up);
        let rows = self.barrier.contacts(&self.ends, &uids, &mut patience);
        Ok(Some(AnewRows {
            rows: rows.await?,
            uids,
            begun,
        }))
    }

    /// Puts what was built into the place of what there was, each user at one moment. Gives those who were dropped or begun by somebody
    /// else meanwhile.
    ///
    /// # Errors
    /// [`UnreadRebuildError`]; some may be in place.
    pub async fn complete(&self, users: AnewRows) -> Result<Vec<UserId>, UnreadRebuildError> {
        let mut counts = counts::by_user(&users.uids, &users.rows);
        let connection = self.redis.get().await?;
        let mut again = Vec::new();
        for rebuild in users.begun {
            let counts = counts.remove(&rebuild.uid()).unwrap_or_default();
            let peers: Vec<(UserId, PeerOrdinals)> = counts.peers.into_iter().collect();
            if !connection.complete_rebuild(&rebuild, &peers).await? {
                again.push(rebuild.uid());
            }
        }
        Ok(again)
    }
}
