use std::{collections::BTreeSet, future::Future};

use schemas::{LogPosition, Partition, PartitionMap, event::Event};

/// An event and its offset in `chat.events`, which is its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEvent {
    /// The offset in `chat.events`.
    pub offset: i64,
    /// The event; never a progress event, of which only the watermark counts.
    pub event: Event,
}

/// The next events of one partition, and the position after them. It may have no events and still move the position, past repeats and
/// progress records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventBatch {
    /// The partition that all events are from.
    pub partition: Partition,
    /// The events, in log order.
    pub events: Vec<LogEvent>,
    /// The position after the last of its records.
    pub end: LogPosition,
}

/// Why a call of a sink failed.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The store is unavailable or busy: the sink keeps its batches, and the same call is retried with backoff.
    #[error("{0}")]
    Transient(String),
    /// The store's positions are not those that the sink last wrote: they must be read again, and the sink's batches are dropped.
    #[error("positions moved: {0}")]
    Moved(String),
    /// Continuing would be wrong; the process ends.
    #[error("{0}")]
    Fatal(String),
}

/// How much of the store a call reached.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Coverage {
    /// All of it.
    Whole,
    /// One part cannot be used and was left out; the rest continues. The text says which part, and why. Once that part can be used again, the sink
    /// returns [`SinkError::Moved`].
    Without(String),
}

/// A store's side of a projection: takes batches into memory, and writes them with their positions.
pub trait Sink: Send + 'static {
    /// Reads the resume positions of `partitions` from the store, and drops their batches. Only this call may change where partitions
    /// are read from.
    fn resume(
        &mut self,
        partitions: &[Partition],
    ) -> impl Future<Output = Result<PartitionMap<LogPosition>, SinkError>> + Send;

    /// The positions of a partition in the parts of the store, as [`Self::resume`] found them; none if all are the returned one. The log has to agree with
    /// each of them.
    fn positions(&self, _partition: Partition) -> BTreeSet<LogPosition> {
        BTreeSet::new()
    }

    /// Takes a batch into memory. The batches of a partition come in order and without gaps, starting at its resume position.
    fn absorb(&mut self, batch: EventBatch);

    /// How many rows (or what the sink counts in) wait to be written.
    fn pending(&self) -> usize;

    /// Writes the batches with their positions, in one step. After a transient error, or if the call is dropped, the sink still holds what was not
    /// written.
    fn flush(&mut self) -> impl Future<Output = Result<Coverage, SinkError>> + Send;

    /// Checks that the store still has the positions that this sink wrote last. Called at intervals, also between flushes: a store that
    /// was restored to an older state must be noticed even when no new events come.
    fn verify(&mut self) -> impl Future<Output = Result<Coverage, SinkError>> + Send;

    /// Drops the batches of `partitions`, which other members own now.
    fn release(&mut self, partitions: &[Partition]);
}
