use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
};

use schemas::{LogPosition, Partition, event::Event};

/// An event and its offset in `chat.events`, which is its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEvent {
    /// The offset.
    pub offset: i64,
    /// The event; never a progress event, of which only the watermark counts.
    pub event: Event,
}

/// The next piece of one partition: its events, and the position behind them. It may have no events and still move the
/// position, over repeats and progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Which partition.
    pub partition: Partition,
    /// In log order.
    pub events: Vec<LogEvent>,
    /// Where it ends.
    pub behind: LogPosition,
}

/// Why a sink could not do something.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The store is away or busy: what is held stays held, and the same call is made again later.
    #[error("{0}")]
    Transient(String),
    /// The store does not stand where the sink believed: positions must be read anew, and what is held is dropped.
    #[error("positions moved: {0}")]
    Moved(String),
    /// Going on would be wrong; the process ends.
    #[error("{0}")]
    Fatal(String),
}

/// How much of its store a call of a sink reached.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Coverage {
    /// All of it.
    Whole,
    /// A part cannot be used and was left out; the rest goes on without it. The text says which part, and why. Once it can
    /// be used again the sink says [`SinkError::Moved`].
    Without(String),
}

/// A store's side of a projection: takes slices into memory, and writes them with their positions.
pub trait Sink: Send + 'static {
    /// Reads from the store where each of `partitions` goes on, and forgets everything held for them. Only this call may
    /// change from where partitions are read.
    fn resume(
        &mut self,
        partitions: &[Partition],
    ) -> impl Future<Output = Result<BTreeMap<Partition, LogPosition>, SinkError>> + Send;

    /// Every position that parts of the store keep of a partition, as [`Self::resume`] found them, where there is more than the one that
    /// it answered: the log has to agree with each.
    fn positions(&self, _partition: Partition) -> BTreeSet<LogPosition> {
        BTreeSet::new()
    }

    /// Takes a slice into memory. Slices of a partition come gapless and in order, from where it resumed.
    fn absorb(&mut self, slice: Slice);

    /// How many rows (or what the sink counts in) wait to be written.
    fn pending(&self) -> usize;

    /// Writes what was absorbed, data and positions at once. After a transient error, or if it is dropped half-way, what
    /// was not written is still held. What an error asks for is to be done, whatever the flush was for.
    fn flush(&mut self) -> impl Future<Output = Result<Coverage, SinkError>> + Send;

    /// Does the store still stand where it was left? Called every so often, also between flushes: one that came back older
    /// must be noticed when no new event comes, and in partitions that do not move.
    fn verify(&mut self) -> impl Future<Output = Result<Coverage, SinkError>> + Send;

    /// Forgets everything held for `partitions`: they are somebody else's.
    fn release(&mut self, partitions: &[Partition]);
}
