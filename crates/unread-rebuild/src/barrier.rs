use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use event_log::LogReader;
use message_store::{ContactRow, MessageStore, ReadTx, Shard, Sink};
use parking_lot::Mutex;
use schemas::{LogPosition, Partition, PartitionMap, TableNumber, UserId, topics::Topic};

use crate::{UnreadRebuildError, backoff::Backoff};

/// The ends of all 64 partitions of `chat.events`.
pub(crate) type Ends = PartitionMap<i64>;

/// Contact rows of some users from one snapshot, page by page: some users have 100,000.
pub(crate) struct Contacts {
    snapshot: ReadTx,
    /// The users with rows after `after`, by table, ascending.
    left: BTreeMap<TableNumber, Vec<UserId>>,
    /// The last row of a page, in the first of these tables.
    after: Option<(UserId, UserId)>,
    /// The users with a read position whose ordinal is being looked up (PROTOCOL R5). They have no rows here.
    pub(crate) open: BTreeSet<UserId>,
}

pub(crate) struct ContactPage {
    pub(crate) rows: Vec<ContactRow>,
    /// The users who have no rows after this page.
    pub(crate) ended: Vec<UserId>,
}

const ROWS_PER_PAGE: usize = 2_000;

impl Contacts {
    /// The next page; `None` after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<ContactPage>, UnreadRebuildError> {
        let Some((table, mut uids)) = self.left.pop_first() else {
            return Ok(None);
        };
        let after = self.after.take();
        let page = self
            .snapshot
            .contacts_of(table, &uids, after, ROWS_PER_PAGE);
        let rows = page.await?;
        if let Some(ContactRow { contact, .. }) = rows.last()
            && rows.len() == ROWS_PER_PAGE
        {
            let not_ended = uids.split_off(uids.partition_point(|uid| *uid < contact.uid));
            self.left.insert(table, not_ended);
            self.after = Some((contact.uid, contact.peer));
        }
        Ok(Some(ContactPage { rows, ended: uids }))
    }
}

/// Reads contact rows of one database once they contain all events before given ends of the log.
pub(crate) struct Barrier {
    pub(crate) store: MessageStore,
    pub(crate) log: Arc<LogReader>,
    /// The full name of `chat.events`, under which the contact sink keeps its offsets.
    pub(crate) topic: String,
    pub(crate) shard: Shard,
    /// The error of the newest attempt, for callers whose own deadline comes first.
    last_error: Mutex<Option<UnreadRebuildError>>,
}

impl Barrier {
    pub(crate) fn new(
        store: MessageStore,
        log: Arc<LogReader>,
        topic: String,
        shard: Shard,
    ) -> Self {
        Self {
            store,
            log,
            topic,
            shard,
            last_error: Mutex::default(),
        }
    }

    /// The reason of a timeout: the last error, or [`UnreadRebuildError::TimedOut`] if the rows only lag.
    pub(crate) fn timeout_reason(&self) -> UnreadRebuildError {
        let last_error = self.last_error.lock().clone();
        last_error.unwrap_or(UnreadRebuildError::TimedOut)
    }

    /// The current ends of the log. Must be read after the rebuilds have begun, never before.
    pub(crate) async fn ends(&self, backoff: &mut Backoff) -> Result<Ends, UnreadRebuildError> {
        loop {
            match self.log.ends(Topic::Events).await {
                Ok(ends) if ends.len() == Partition::all().len() => return Ok(ends),
                Ok(ends) => self.record_error(UnreadRebuildError::Transient(format!(
                    "Kafka returned the ends of only {} partitions of {}",
                    ends.len(),
                    self.topic
                ))),
                Err(error) => self.record_error(error.into()),
            }
            backoff.pause().await.map_err(|_| self.timeout_reason())?;
        }
    }

    /// The rows of `uids`, once the database contains all events before `ends`.
    pub(crate) async fn contacts(
        &self,
        ends: &Ends,
        uids: &[UserId],
        backoff: &mut Backoff,
    ) -> Result<Contacts, UnreadRebuildError> {
        loop {
            match self.contacts_if_reached(ends, uids).await {
                Ok(Some(contacts)) => {
                    self.set_last_error(None);
                    return Ok(contacts);
                }
                Ok(None) => self.set_last_error(None),
                Err(fatal @ UnreadRebuildError::Fatal(_)) => return Err(fatal),
                Err(error) => self.record_error(error),
            }
            backoff.pause().await.map_err(|_| self.timeout_reason())?;
        }
    }

    /// Positions and rows come from one snapshot: the rows contain the events before the positions.
    async fn contacts_if_reached(
        &self,
        ends: &Ends,
        uids: &[UserId],
    ) -> Result<Option<Contacts>, UnreadRebuildError> {
        let partitions: Vec<Partition> = ends.partitions().collect();
        let mut snapshot = self.store.snapshot(self.shard).await?;
        let reached = snapshot
            .resume_offsets(Sink::Contacts, &self.topic, &partitions)
            .await?;
        if !has_reached(&reached, ends) {
            return Ok(None);
        }
        let open = snapshot.unresolved_readers(uids).await?;
        let ready: Vec<UserId> = uids.iter().copied().filter(|u| !open.contains(u)).collect();
        let mut left: BTreeMap<TableNumber, Vec<UserId>> = BTreeMap::new();
        for uid in ready {
            left.entry(TableNumber::of_user(uid)).or_default().push(uid);
        }
        left.values_mut().for_each(|uids| uids.sort_unstable());
        Ok(Some(Contacts {
            snapshot,
            left,
            after: None,
            open,
        }))
    }

    fn record_error(&self, error: UnreadRebuildError) {
        tracing::debug!(%error, database = self.shard.get(), "rebuilds wait");
        self.set_last_error(Some(error));
    }

    fn set_last_error(&self, error: Option<UnreadRebuildError>) {
        *self.last_error.lock() = error;
    }
}

fn has_reached(reached: &PartitionMap<LogPosition>, ends: &Ends) -> bool {
    ends.iter().all(|(partition, end)| {
        let at = reached.get(partition).copied().unwrap_or_default();
        at.next.get() >= *end
    })
}

#[cfg(test)]
mod tests {
    use schemas::NextOffset;

    use super::*;

    fn p(n: i64) -> Partition {
        n.try_into().unwrap()
    }

    fn at(next: i64) -> LogPosition {
        LogPosition {
            next: NextOffset::new(next),
            ..LogPosition::default()
        }
    }

    #[test]
    fn every_partition_has_to_reach_its_end() {
        let ends = Ends::from([(p(0), 5), (p(1), 0)]);
        assert!(has_reached(&[(p(0), at(5))].into(), &ends));
        assert!(has_reached(&[(p(0), at(6)), (p(1), at(1))].into(), &ends));
        assert!(!has_reached(&[(p(0), at(4)), (p(1), at(9))].into(), &ends));
        assert!(!has_reached(&PartitionMap::new(), &ends));
    }
}
