use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use event_log::LogReader;
use message_store::{ContactRow, MessageStore, Shard, Sink};
use schemas::{LogPosition, Partition, PartitionMap, UserId, topics::Topic};

use crate::{UnreadRebuildError, patience::Patience};

/// The ends of all 64 partitions of `chat.events` at one moment.
pub(crate) type Ends = BTreeMap<Partition, i64>;

/// Reads contact rows that are known to hold everything up to some ends of the log.
pub(crate) struct Barrier {
    pub(crate) store: MessageStore,
    pub(crate) log: Arc<LogReader>,
    /// The full name of `chat.events`, under which the contact sink keeps its offsets.
    pub(crate) topic: String,
    pub(crate) shard: Shard,
    /// Why it stands still, where it does: for those whose own deadline comes first.
    fault: Mutex<Option<UnreadRebuildError>>,
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
            fault: Mutex::default(),
        }
    }

    /// What keeps the rows from being read at present; [`UnreadRebuildError::TimedOut`] where it is only that they lag.
    pub(crate) fn why_late(&self) -> UnreadRebuildError {
        let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        fault.clone().unwrap_or(UnreadRebuildError::TimedOut)
    }

    /// Where the log ends now. To be asked once the users are begun, never before.
    pub(crate) async fn ends(&self, patience: &mut Patience) -> Result<Ends, UnreadRebuildError> {
        loop {
            match self.log.ends(Topic::Events).await {
                Ok(ends) if ends.len() == Partition::all().len() => return Ok(ends),
                Ok(ends) => self.note(UnreadRebuildError::Transient(format!(
                    "Kafka tells the ends of {} partitions of {} only",
                    ends.len(),
                    self.topic
                ))),
                Err(fault) => self.note(fault.into()),
            }
            patience.pause().await.map_err(|_| self.why_late())?;
        }
    }

    /// The rows of `uids`, once the database has taken in everything before `ends`.
    pub(crate) async fn contacts(
        &self,
        ends: &Ends,
        uids: &[UserId],
        patience: &mut Patience,
    ) -> Result<Vec<ContactRow>, UnreadRebuildError> {
        loop {
            match self.contacts_if_reached(ends, uids).await {
                Ok(Some(rows)) => {
                    self.clear();
                    return Ok(rows);
                }
                Ok(None) => self.clear(),
                Err(fatal @ UnreadRebuildError::Fatal(_)) => return Err(fatal),
                Err(error) => self.note(error),
            }
            patience.pause().await.map_err(|_| self.why_late())?;
        }
    }

    /// Offsets and rows come from one snapshot: the rows are those of the events below the offsets.
    async fn contacts_if_reached(
        &self,
        ends: &Ends,
        uids: &[UserId],
    ) -> Result<Option<Vec<ContactRow>>, UnreadRebuildError> {
        let partitions: Vec<Partition> = ends.keys().copied().collect();
        let mut snapshot = self.store.snapshot(self.shard).await?;
        let reached = snapshot
            .resume_offsets(Sink::Contacts, &self.topic, &partitions)
            .await?;
        if !has_reached(&reached, ends) {
            return Ok(None);
        }
        Ok(Some(snapshot.contacts_of(uids).await?))
    }

    fn note(&self, fault: UnreadRebuildError) {
        tracing::debug!(%fault, database = self.shard.get(), "rebuilds wait");
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
    }

    fn clear(&self) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn has_reached(reached: &PartitionMap<LogPosition>, ends: &Ends) -> bool {
    ends.iter().all(|(partition, end)| {
        let at = reached.get(*partition).copied().unwrap_or_default();
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
    fn every_partition_has_to_be_there() {
        let ends = Ends::from([(p(0), 5), (p(1), 0)]);
        assert!(has_reached(&[(p(0), at(5))].into(), &ends));
        assert!(has_reached(&[(p(0), at(6)), (p(1), at(1))].into(), &ends));
        assert!(!has_reached(&[(p(0), at(4)), (p(1), at(9))].into(), &ends));
        assert!(!has_reached(&PartitionMap::new(), &ends));
    }
}
