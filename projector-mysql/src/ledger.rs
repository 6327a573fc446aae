use std::collections::{BTreeMap, BTreeSet};

use message_store::{MessageStore, Resume, ResumeMove, Shard, Sink};
use projection::SinkError;
use schemas::{LogPosition, Partition};

use crate::outcome::sink_error;

/// One database, and whose offsets in it.
#[derive(Clone)]
pub struct Place {
    /// The store that it is a part of.
    pub store: MessageStore,
    /// Which database.
    pub shard: Shard,
    /// Whose offsets.
    pub sink: Sink,
    /// The full name of `chat.events`.
    pub topic: String,
    /// The only tables there that matter; `None` for all.
    pub tables: Option<BTreeSet<Partition>>,
}

impl Place {
    /// Whether rows of this table are written here.
    pub(crate) fn holds(&self, table: Partition) -> bool {
        let tables = self.tables.as_ref();
        self.store.layout().shard_of(table) == self.shard
            && tables.is_none_or(|tables| tables.contains(&table))
    }

    /// Where the database stands.
    pub(crate) async fn read(
        &self,
        partitions: &[Partition],
    ) -> Result<BTreeMap<Partition, Resume>, SinkError> {
        self.store
            .read_resume(self.shard, self.sink, &self.topic, partitions)
            .await
            .map_err(sink_error)
    }

    /// Fails if the database does not stand where `ledger` remembers it.
    pub(crate) async fn compare(&self, ledger: &Ledger) -> Result<(), SinkError> {
        let found = self.read(&ledger.partitions()).await?;
        match ledger.contradicted_by(&found) {
            Some(partition) => Err(SinkError::Moved(format!(
                "database {} stands elsewhere in partition {partition}",
                self.shard.get()
            ))),
            None => Ok(()),
        }
    }
}

/// Where one database stands with one sink, and where what is held for it leads.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    remembered: BTreeMap<Partition, Resume>,
    reached: BTreeMap<Partition, Resume>,
}

impl Ledger {
    /// Takes over what the database says of these partitions; where they led is forgotten.
    pub(crate) fn remember(&mut self, found: BTreeMap<Partition, Resume>) {
        self.reached
            .retain(|partition, _| !found.contains_key(partition));
        self.remembered.extend(found);
    }

    pub(crate) fn forget(&mut self, partitions: &[Partition]) {
        self.remembered
            .retain(|partition, _| !partitions.contains(partition));
        self.reached
            .retain(|partition, _| !partitions.contains(partition));
    }

    /// Whether it was asked about no partition.
    pub(crate) fn is_empty(&self) -> bool {
        self.remembered.is_empty()
    }

    pub(crate) fn partitions(&self) -> Vec<Partition> {
        self.remembered.keys().copied().collect()
    }

    /// Where the database stands; `None` for a partition that it was not asked about.
    pub(crate) fn stands_at(&self, partition: Partition) -> Option<Resume> {
        self.remembered.get(&partition).copied()
    }

    /// What is held goes up to here. A database that stands further is left there: others were behind it.
    pub(crate) fn reach(&mut self, partition: Partition, to: Resume) {
        let is_ahead = |from: Resume| to.next_offset > from.next_offset;
        if self.stands_at(partition).is_some_and(is_ahead) {
            self.reached.insert(partition, to);
        }
    }

    pub(crate) fn moves(&self) -> Vec<ResumeMove> {
        let step = |(partition, to): (&Partition, &Resume)| ResumeMove {
            partition: *partition,
            from: self.remembered.get(partition).copied().unwrap_or_default(),
            to: *to,
        };
        self.reached.iter().map(step).collect()
    }

    /// The database has taken the moves; whether there were any.
    pub(crate) fn moved(&mut self) -> bool {
        let any = !self.reached.is_empty();
        self.remembered.append(&mut self.reached);
        any
    }

    /// A partition of which the database says something else than is remembered.
    pub(crate) fn contradicted_by(&self, found: &BTreeMap<Partition, Resume>) -> Option<Partition> {
        let differs = |(partition, resume): &(&Partition, &Resume)| {
            found.get(partition).copied().unwrap_or_default() != **resume
        };
        self.remembered
            .iter()
            .find(differs)
            .map(|(partition, _)| *partition)
    }
}

/// A position as the store keeps it.
pub(crate) fn resume_of(position: LogPosition) -> Resume {
    Resume {
        next_offset: position.next.get(),
        watermark: position.watermark,
    }
}

/// Where reading goes on from what the store keeps.
pub(crate) fn position_of(resume: Resume) -> LogPosition {
    LogPosition {
        next: schemas::NextOffset::new(resume.next_offset),
        watermark: resume.watermark,
    }
}

#[cfg(test)]
mod tests {
    use schemas::event::SourceOffset;

    use super::*;

    fn at(next_offset: i64) -> Resume {
        let watermark = SourceOffset {
            epoch: 0,
            offset: next_offset * 10,
        };
        Resume {
            next_offset,
            watermark,
        }
    }

    fn partition(n: i64) -> Partition {
        n.try_into().unwrap()
    }

    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        ledger.remember(BTreeMap::from([
            (partition(1), at(5)),
            (partition(2), Resume::START),
        ]));
        ledger
    }

    #[test]
    fn only_what_goes_forward_moves() {
        let mut ledger = ledger();
        ledger.reach(partition(1), at(5));
        ledger.reach(partition(1), at(4));
        ledger.reach(partition(3), at(9));
        assert!(ledger.moves().is_empty());
        ledger.reach(partition(1), at(6));
        let step = ResumeMove {
            partition: partition(1),
            from: at(5),
            to: at(6),
        };
        assert_eq!(ledger.moves(), [step]);
        assert!(ledger.moved());
        assert_eq!(ledger.stands_at(partition(1)), Some(at(6)));
        assert!(ledger.moves().is_empty());
    }

    #[test]
    fn a_database_that_came_back_older_contradicts() {
        let ledger = ledger();
        let same = BTreeMap::from([(partition(1), at(5))]);
        assert_eq!(ledger.contradicted_by(&same), None);
        let older = BTreeMap::from([(partition(1), at(3)), (partition(2), Resume::START)]);
        assert_eq!(ledger.contradicted_by(&older), Some(partition(1)));
        assert_eq!(ledger.contradicted_by(&BTreeMap::new()), Some(partition(1)));
    }
}
