use hashbrown::{HashMap, hash_map::Entry};
use message_store::StoreError;
use projection::LogEvent;
use schemas::{
    LogPosition, Partition, PartitionMap,
    event::{Body, ReadPosition},
};

use super::{
    MergedRow,
    unresolved_read::{ResolvedReads, UnresolvedRead},
};
use crate::{destination::Destination, metrics, offsets::Offsets};

/// The pending rows and the offsets of one database.
pub(crate) struct Buffer<R: MergedRow> {
    pub(crate) offsets: Offsets,
    rows: HashMap<R::Key, R>,
    unresolved: Vec<UnresolvedRead>,
    /// The offsets that partitions with unresolved read positions advance to once those are resolved.
    withheld: PartitionMap<LogPosition>,
}

impl<R: MergedRow> Default for Buffer<R> {
    fn default() -> Self {
        Self {
            offsets: Offsets::default(),
            rows: HashMap::new(),
            unresolved: Vec::new(),
            withheld: PartitionMap::new(),
        }
    }
}

impl<R: MergedRow> Buffer<R> {
    /// Takes over the offsets that the database has, and drops what is pending of these partitions.
    pub(crate) fn reset(&mut self, found: PartitionMap<LogPosition>) {
        let partitions: Vec<Partition> = found.partitions().collect();
        self.forget(&partitions);
        self.offsets.reset(found);
    }

    pub(crate) fn forget(&mut self, partitions: &[Partition]) {
        self.rows
            .retain(|_, row| !partitions.contains(&row.conversation().partition()));
        self.unresolved
            .retain(|read| !partitions.contains(&read.partition()));
        self.withheld
            .retain(|partition, _| !partitions.contains(&partition));
        self.offsets.forget(partitions);
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len() + self.unresolved.len()
    }

    /// Whether the database has yet to take the record at this offset.
    pub(crate) fn lacks(&self, partition: Partition, offset: i64) -> bool {
        let stored = self.offsets.stored(partition);
        stored.is_some_and(|at| at.next.get() <= offset)
    }

    pub(crate) fn merge(&mut self, row: R) {
        match self.rows.entry(row.key()) {
            Entry::Vacant(entry) => {
                entry.insert(row);
            }
            Entry::Occupied(mut pending) => pending.get_mut().merge(row),
        }
    }

    pub(crate) fn push_unresolved(&mut self, read: UnresolvedRead) {
        self.unresolved.push(read);
    }

    pub(crate) fn unresolved(&self) -> impl Iterator<Item = UnresolvedRead> {
        self.unresolved.iter().copied()
    }

    /// Advances a partition's offset; one with an unresolved read position stays before that.
    pub(crate) fn advance(&mut self, partition: Partition, to: LogPosition) {
        if self
            .unresolved
            .iter()
            .any(|read| read.partition() == partition)
        {
            self.withheld.insert(partition, to);
        } else {
            self.offsets.advance(partition, to);
        }
    }

    /// Turns resolved read positions into rows, and advances the offsets that waited for them.
    pub(crate) fn resolve(&mut self, resolved: &ResolvedReads) {
        for read in std::mem::take(&mut self.unresolved) {
            match resolved.get(&read.id()) {
                Some(position) => self.merge(R::of_read(position)),
                None => self.unresolved.push(read),
            }
        }
        for (partition, to) in std::mem::take(&mut self.withheld) {
            self.advance(partition, to);
        }
    }

    /// Writes what is pending, and keeps it: the caller may be dropped meanwhile, and then it is not known whether the database
    /// took it.
    pub(crate) async fn write(&self, destination: &Destination) -> Result<(), StoreError> {
        let updates = self.offsets.updates();
        if self.rows.is_empty() && updates.is_empty() {
            return Ok(());
        }
        let write = R::write(destination, self.rows.values(), &updates);
        metrics::measure(destination, self.rows.len(), write).await
    }

    /// The database has taken what was pending; whether there was anything.
    pub(crate) fn committed(&mut self) -> bool {
        let advanced = self.offsets.committed();
        let rows = std::mem::take(&mut self.rows);
        advanced || !rows.is_empty()
    }
}

/// The rows that an event changes.
pub(crate) enum Change<R> {
    Rows([Option<R>; 2]),
    /// A row with a read position whose ordinal has to be looked up first.
    Unresolved(R, ReadPosition),
}

pub(crate) fn change_of<R: MergedRow>(LogEvent { event, .. }: &LogEvent) -> Change<R> {
    match &event.body {
        Body::Message(message) => Change::Rows(R::of_message(message, event.ts)),
        Body::ReadPosition(position) if R::NEEDS_ORDINALS && position.n.is_none() => {
            Change::Unresolved(R::of_read(position), *position)
        }
        Body::ReadPosition(position) => Change::Rows([Some(R::of_read(position)), None]),
        Body::Control(_) | Body::Progress => Change::Rows([None, None]),
    }
}
