use std::{fmt, str::FromStr};

use schemas::{LogPosition, Partition, PartitionMap};
use uuid::Uuid;

/// Identifies the contents of a slot. A slot that has lost its contents gets a new generation, and data of an older one counts as absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Generation(Uuid);

impl Generation {
    /// A generation that no slot has had before.
    #[must_use]
    pub fn fresh() -> Self {
        Self(Uuid::new_v4())
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Generation {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, uuid::Error> {
        Uuid::parse_str(text).map(Self)
    }
}

/// How far a partition of `chat.events` is applied to a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredPosition {
    /// The slot's generation when the position was written.
    pub generation: Generation,
    /// The position; `after=` is compared with its watermark, too.
    pub position: LogPosition,
}

/// A compare-and-set of a partition's position, made after the batch that it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PositionMove {
    /// The partition.
    pub partition: Partition,
    /// The expected position; if Redis has another one, nothing moves.
    pub from: StoredPosition,
    /// The new position.
    pub to: StoredPosition,
}

/// The positions of all partitions: those found on a slot, or those that a writer remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredPositions(PartitionMap<StoredPosition>);

impl StoredPositions {
    /// The position of a partition.
    #[must_use]
    pub fn get(&self, partition: Partition) -> Option<StoredPosition> {
        self.0.get(partition).copied()
    }

    /// Sets a position.
    pub fn insert(&mut self, partition: Partition, position: StoredPosition) {
        self.0.insert(partition, position);
    }

    /// Removes a position.
    pub fn remove(&mut self, partition: Partition) {
        self.0.remove(partition);
    }

    /// The positions that exist, by partition.
    pub fn iter(&self) -> impl Iterator<Item = (Partition, StoredPosition)> + '_ {
        self.0
            .iter()
            .map(|(partition, stored)| (partition, *stored))
    }

    /// The partitions without a position.
    pub fn missing(&self) -> impl Iterator<Item = Partition> + '_ {
        Partition::all().filter(|partition| !self.0.contains(*partition))
    }

    /// The generation, if all 64 positions exist and have the same one.
    #[must_use]
    pub fn generation(&self) -> Option<Generation> {
        self.generation_of_existing()
            .filter(|_| self.missing().next().is_none())
    }

    /// The generation of the positions that exist, if they have the same one.
    pub(crate) fn generation_of_existing(&self) -> Option<Generation> {
        let first = self.0.values().next()?.generation;
        let is_uniform = self.0.values().all(|stored| stored.generation == first);
        is_uniform.then_some(first)
    }
}

impl FromIterator<(Partition, StoredPosition)> for StoredPositions {
    fn from_iter<I: IntoIterator<Item = (Partition, StoredPosition)>>(positions: I) -> Self {
        Self(positions.into_iter().collect())
    }
}
