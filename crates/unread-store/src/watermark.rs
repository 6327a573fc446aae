use std::{fmt, str::FromStr};

use schemas::{PARTITIONS, Partition, event::SourceOffset};
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
pub struct Watermark {
    /// The node's life to which the watermark belongs.
    pub generation: Generation,
    /// The next offset of `chat.events` to read.
    pub offset: i64,
    /// The highest src applied (PROTOCOL S10); also what `after=` is compared with.
    pub src: SourceOffset,
}

/// A watermark that goes forward with the batch before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatermarkMove {
    /// The partition.
    pub partition: Partition,
    /// The watermark as it was remembered; if it is another by now, nothing moves.
    pub from: Watermark,
    /// The watermark as it becomes.
    pub to: Watermark,
}

/// Watermarks of all partitions: those found on a node, or those that a writer remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watermarks([Option<Watermark>; PARTITIONS as usize]);

impl Watermarks {
    /// No watermark at all.
    pub const NONE: Self = Self([None; PARTITIONS as usize]);

    /// The watermark of a partition.
    #[must_use]
    pub fn get(&self, partition: Partition) -> Option<Watermark> {
        self.0[partition.index()]
    }

    /// Puts a watermark, or takes one away.
    pub fn set(&mut self, partition: Partition, watermark: Option<Watermark>) {
        self.0[partition.index()] = watermark;
    }

    /// Those that are there, by partition.
    pub fn iter(&self) -> impl Iterator<Item = (Partition, Watermark)> + '_ {
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
        let agree =
            |watermark: &Option<Watermark>| watermark.is_some_and(|m| m.generation == first);
        self.0.iter().all(agree).then_some(first)
    }
}

impl FromIterator<(Partition, Watermark)> for Watermarks {
    fn from_iter<I: IntoIterator<Item = (Partition, Watermark)>>(watermarks: I) -> Self {
        let mut all = Self::NONE;
        for (partition, watermark) in watermarks {
            all.set(partition, Some(watermark));
        }
        all
    }
}
