use std::collections::BTreeMap;

use hashbrown::{HashMap, hash_map::Entry};
use message_store::{Resume, StoreError};
use projection::LogEvent;
use schemas::{
    Partition,
    event::{Body, ReadPosition},
};

use super::{MergedRow, open_read::OpenRead};
use crate::{
    ledger::{Ledger, Place},
    metrics::Batch,
};

/// What is held for a database in use, and where that stands.
pub(crate) struct Target<R: MergedRow> {
    pub(crate) ledger: Ledger,
    rows: HashMap<R::Key, R>,
    open: Vec<OpenRead>,
    /// How far partitions with open read positions would be, were those settled.
    withheld: BTreeMap<Partition, Resume>,
}

impl<R: MergedRow> Default for Target<R> {
    fn default() -> Self {
        Self {
            ledger: Ledger::default(),
            rows: HashMap::new(),
            open: Vec::new(),
            withheld: BTreeMap::new(),
        }
    }
}

impl<R: MergedRow> Target<R> {
    /// Takes over where the database stands, and forgets what was held of these partitions.
    pub(crate) fn resume(&mut self, found: BTreeMap<Partition, Resume>) {
        let partitions: Vec<Partition> = found.keys().copied().collect();
        self.forget(&partitions);
        self.ledger.remember(found);
    }

    pub(crate) fn forget(&mut self, partitions: &[Partition]) {
        self.rows
            .retain(|_, row| !partitions.contains(&row.conversation().partition()));
        self.open
            .retain(|read| !partitions.contains(&read.partition()));
        self.withheld
            .retain(|partition, _| !partitions.contains(partition));
        self.ledger.forget(partitions);
    }

    pub(crate) fn held(&self) -> usize {
        self.rows.len() + self.open.len()
    }

    /// Whether the database has not taken in this record of a partition.
    pub(crate) fn lacks(&self, partition: Partition, offset: i64) -> bool {
        self.ledger
            .stands_at(partition)
            .is_some_and(|at| at.next_offset <= offset)
    }

    pub(crate) fn take(&mut self, row: R) {
        match self.rows.entry(row.key()) {
            Entry::Vacant(place) => {
                place.insert(row);
            }
            Entry::Occupied(mut held) => held.get_mut().merge(row),
        }
    }

    pub(crate) fn take_open(&mut self, read: OpenRead) {
        self.open.push(read);
    }

    pub(crate) fn open(&self) -> impl Iterator<Item = OpenRead> {
        self.open.iter().copied()
    }

    /// What is held goes up to here; offsets stay before a read position that is open.
    pub(crate) fn reach(&mut self, partition: Partition, to: Resume) {
        if self.open.iter().any(|read| read.partition() == partition) {
            self.withheld.insert(partition, to);
        } else {
            self.ledger.reach(partition, to);
        }
    }

    /// Turns settled read positions into rows, and lets go of the offsets that waited for them.
    pub(crate) fn close(&mut self, settled: &BTreeMap<(Partition, i64), ReadPosition>) {
        for read in std::mem::take(&mut self.open) {
            match settled.get(&(read.partition(), read.offset)) {
                Some(position) => self.take(R::of_read(position)),
                None => self.open.push(read),
            }
        }
        for (partition, to) in std::mem::take(&mut self.withheld) {
            self.reach(partition, to);
        }
    }

    /// Writes what is held. Nothing is let go of: the caller may be dropped meanwhile, and then it is not known whether
    /// the database took it.
    pub(crate) async fn write(&self, place: &Place) -> Result<(), StoreError> {
        let moves = self.ledger.moves();
        if self.rows.is_empty() && moves.is_empty() {
            return Ok(());
        }
        let batch = Batch::begin(place.sink, place.shard, self.rows.len());
        let rows = self.rows.values();
        let outcome = R::write(&place.store, place.shard, &place.topic, rows, &moves).await;
        batch.end(&outcome);
        outcome
    }

    /// The database has taken what was held; whether that was anything.
    pub(crate) fn written(&mut self) -> bool {
        let moved = self.ledger.moved();
        let rows = std::mem::take(&mut self.rows);
        moved || !rows.is_empty()
    }
}

/// What an event says to rows, or the question that has to be answered first.
pub(crate) enum Told<R> {
    Rows([Option<R>; 2]),
    /// The row that it is about, and the position.
    Open(R, ReadPosition),
}

pub(crate) fn told<R: MergedRow>(LogEvent { event, .. }: &LogEvent) -> Told<R> {
    match &event.body {
        Body::Message(message) => Told::Rows(R::of_message(message, event.ts)),
        Body::ReadPosition(position) if R::NEEDS_ORDINALS && position.n.is_none() => {
            Told::Open(R::of_read(position), *position)
        }
        Body::ReadPosition(position) => Told::Rows([Some(R::of_read(position)), None]),
        Body::Control(_) | Body::Progress => Told::Rows([None, None]),
    }
}
