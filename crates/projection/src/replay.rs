//! Reads a part of the log into a sink outside of any group, to rebuild what a projection has written.

use std::{
    ops::{ControlFlow, Range},
    sync::Arc,
    time::Duration,
};

use event_log::{AssignmentGeneration, EventLogError, LogReader};
use schemas::{LogPosition, Partition, PartitionMap, event::UnknownRules, topics::Topic};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::{EventBatch, Sink, SinkError, open_batch::OpenBatch};

/// How many batches may be queued for the sink.
const BATCHES_AHEAD: usize = 16;

/// How long a store may be unavailable.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_millis(100);

/// Why a replay ended early. Rows that the sink has written stay, with their positions.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The log cannot be read.
    #[error(transparent)]
    Kafka(#[from] EventLogError),
    /// A newer program wrote the next record.
    #[error("chat.events: {0}")]
    UnknownRules(#[from] UnknownRules),
    /// The store cannot take the records.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

/// Reads partitions of `chat.events` into a sink, from its store's position, by the same rules as a projection. Records that are not events are
/// skipped: the running projection dead-letters them.
pub struct Replay<S> {
    sink: S,
    reader: Arc<LogReader>,
    max_pending: usize,
    positions: PartitionMap<LogPosition>,
}

impl<S: Sink> Replay<S> {
    /// Begins at the store's positions. The sink is flushed when its pending count reaches `max_pending`.
    ///
    /// # Errors
    /// The error of the store.
    pub async fn begin(
        mut sink: S,
        reader: Arc<LogReader>,
        partitions: &[Partition],
        max_pending: usize,
    ) -> Result<Self, SinkError> {
        let positions = sink.resume(partitions).await?;
        Ok(Self {
            sink,
            reader,
            max_pending,
            positions,
        })
    }

    /// The store's positions.
    #[must_use]
    pub fn positions(&self) -> &PartitionMap<LogPosition> {
        &self.positions
    }

    /// How many records there are up to these ends.
    pub(crate) fn left(&self, ends: &PartitionMap<i64>) -> i64 {
        let left = |(partition, end): (Partition, &i64)| {
            let at = self.positions.get(partition).copied().unwrap_or_default();
            (end - at.next.get()).max(0)
        };
        ends.iter().map(left).sum()
    }

    /// Reads up to these ends, and writes everything. `progress` is called with the number of records read.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub async fn up_to(
        &mut self,
        ends: &PartitionMap<i64>,
        mut progress: impl FnMut(u64),
    ) -> Result<(), ReplayError> {
        let (mut batches, reading) = self.read(ends);
        while let Some(batch) = batches.recv().await {
            let at = self
                .positions
                .get_or_insert_with(batch.partition, LogPosition::default);
            progress(
                batch
                    .end
                    .next
                    .get()
                    .saturating_sub(at.next.get())
                    .cast_unsigned(),
            );
            *at = batch.end;
            self.sink.absorb(batch);
            if self.sink.pending() >= self.max_pending {
                self.flush().await?;
            }
        }
        reading.await.expect("reading the log does not panic")?;
        Ok(self.flush().await?)
    }

    /// The batches from the store's positions up to the ends.
    fn read(
        &self,
        ends: &PartitionMap<i64>,
    ) -> (
        mpsc::Receiver<EventBatch>,
        JoinHandle<Result<(), ReplayError>>,
    ) {
        let (sender, receiver) = mpsc::channel(BATCHES_AHEAD);
        let mut open_batches = PartitionMap::new();
        let mut ranges: Vec<(Partition, Range<i64>)> = Vec::new();
        for (partition, position) in self.positions.iter() {
            let end = ends.get(partition).copied().unwrap_or_default();
            if position.next.get() < end {
                let open = OpenBatch::new(0, AssignmentGeneration::default(), *position, None);
                open_batches.insert(partition, open);
                ranges.push((partition, position.next.get()..end));
            }
        }
        let reader = Arc::clone(&self.reader);
        let reading = tokio::task::spawn_blocking(move || {
            let mut read = Ok(());
            reader.scan(Topic::Events, &ranges, |record| {
                let partition = record.partition;
                let Some(open) = open_batches.get_mut(partition) else {
                    return ControlFlow::Continue(());
                };
                if let Err(unknown) = open.take(&record.by_ref()) {
                    read = Err(unknown.into());
                    return ControlFlow::Break(());
                }
                if open.is_full()
                    && sender
                        .blocking_send(open.take_batch(partition).batch)
                        .is_err()
                {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            })?;
            for (partition, mut open) in open_batches {
                if open.has_moved()
                    && sender
                        .blocking_send(open.take_batch(partition).batch)
                        .is_err()
                {
                    break;
                }
            }
            read
        });
        (receiver, reading)
    }

    /// Flushes the sink; retries transient errors for a while.
    async fn flush(&mut self) -> Result<(), SinkError> {
        let deadline = Instant::now() + RETRY_TIMEOUT;
        loop {
            match self.sink.flush().await {
                Ok(_) => return Ok(()),
                Err(SinkError::Transient(why)) if Instant::now() < deadline => {
                    tracing::debug!(why, "retrying");
                    sleep(RETRY).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}
