use std::{fmt, str::FromStr};

use schemas::{PARTITIONS, Partition, event::SrcMark};
use uuid::Uuid;

/// Which life of a node something belongs to. A node that was emptied begins a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Generation(Uuid);

impl Generation {
    /// One that never was.
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

/// How far a partition of `chat.events` is applied to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The node's life to which the mark belongs.
    pub generation: Generation,
    /// The next offset of `chat.events` to read.
    pub offset: i64,
    /// The highest src applied (PROTOCOL S10); also what `after=` is compared with.
    pub src: SrcMark,
}

/// A mark that goes forward with the batch before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkMove {
    /// The partition.
    pub partition: Partition,
    /// The mark as it was remembered; if it is another by now, nothing moves.
    pub from: Mark,
    /// The mark as it becomes.
    pub to: Mark,
}

/// Marks of all partitions: those found on a node, or those that a writer remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks([Option<Mark>; PARTITIONS as usize]);

impl Marks {
    /// No mark at all.
    pub const NONE: Self = Self([None; PARTITIONS as usize]);

    /// The mark of a partition.
    #[must_use]
    pub fn get(&self, partition: Partition) -> Option<Mark> {
        self.0[partition.index()]
    }

    /// Puts a mark, or takes one away.
    pub fn set(&mut self, partition: Partition, mark: Option<Mark>) {
        self.0[partition.index()] = mark;
    }

    /// Those that are there, by partition.
    pub fn iter(&self) -> impl Iterator<Item = (Partition, Mark)> + '_ {
        Partition::all().filter_map(|p| Some((p, self.get(p)?)))
    }

    /// The partitions that have none.
    pub fn missing(&self) -> impl Iterator<Item = Partition> + '_ {
        Partition::all().filter(|p| self.get(*p).is_none())
    }

    /// The generation, if all 64 are there and agree on it.
    #[must_use]
    pub fn generation(&self) -> Option<Generation> {
        let first = self.0[0]?.generation;
        let agree = |mark: &Option<Mark>| mark.is_some_and(|m| m.generation == first);
        self.0.iter().all(agree).then_some(first)
    }
}

impl FromIterator<(Partition, Mark)> for Marks {
    fn from_iter<I: IntoIterator<Item = (Partition, Mark)>>(marks: I) -> Self {
        let mut all = Self::NONE;
        for (partition, mark) in marks {
            all.set(partition, Some(mark));
        }
        all
    }
}
