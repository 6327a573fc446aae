//! A part of the log, read into a sink outside of any group: to build anew what a projection has built.

use std::{
    collections::BTreeMap,
    ops::{ControlFlow, Range},
    sync::Arc,
    time::Duration,
};

use event_log::{EventLogError, LogReader};
use schemas::{LogPosition, Partition, topics::Topic};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::{Sink, SinkError, Slice, reading::Reading};

/// How many slices may wait for the sink.
const SLICES_AHEAD: usize = 16;

/// How long a store may be away.
const PATIENCE: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_millis(100);

/// Why a replay ended before its end. What the sink has written is there, with its positions.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The log cannot be read.
    #[error(transparent)]
    Kafka(#[from] EventLogError),
    /// The store cannot take it.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

/// Reads partitions of `chat.events` into a sink, from where its store stands, by the same rules as a projection. What is no event
/// is passed over: the projection that runs has put it into the dead letters.
pub struct Replay<S> {
    sink: S,
    reader: Arc<LogReader>,
    max_pending: usize,
    positions: BTreeMap<Partition, LogPosition>,
}

impl<S: Sink> Replay<S> {
    /// Begins where the sink's store stands. It is flushed when its pending reaches `max_pending`.
    ///
    /// # Errors
    /// The store's.
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

    /// How far the store is.
    #[must_use]
    pub fn positions(&self) -> &BTreeMap<Partition, LogPosition> {
        &self.positions
    }

    /// Reads up to these ends and writes all of it. `progress` is told how many records were taken in.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub async fn up_to(
        &mut self,
        ends: &BTreeMap<Partition, i64>,
        mut progress: impl FnMut(u64),
    ) -> Result<(), ReplayError> {
        let (mut slices, reading) = self.read(ends);
        while let Some(slice) = slices.recv().await {
            let at = self.positions.entry(slice.partition).or_default();
            progress(
                slice
                    .behind
                    .next
                    .get()
                    .saturating_sub(at.next.get())
                    .cast_unsigned(),
            );
            *at = slice.behind;
            self.sink.absorb(slice);
            if self.sink.pending() >= self.max_pending {
                self.flush().await?;
            }
        }
        reading.await.expect("reading the log does not panic")?;
        Ok(self.flush().await?)
    }

    /// Slices from where the store is, up to the ends.
    fn read(
        &self,
        ends: &BTreeMap<Partition, i64>,
    ) -> (mpsc::Receiver<Slice>, JoinHandle<Result<(), EventLogError>>) {
        let (sender, receiver) = mpsc::channel(SLICES_AHEAD);
        let mut readings = BTreeMap::new();
        let mut ranges: Vec<(Partition, Range<i64>)> = Vec::new();
        for (partition, position) in &self.positions {
            let end = ends.get(partition).copied().unwrap_or_default();
            if position.next.get() < end {
                readings.insert(*partition, Reading::new(0, 0, *position, None));
                ranges.push((*partition, position.next.get()..end));
            }
        }
        let reader = Arc::clone(&self.reader);
        let reading = tokio::task::spawn_blocking(move || {
            reader.scan(Topic::Events, &ranges, |record| {
                let partition = record.partition;
                let Some(reading) = readings.get_mut(&partition) else {
                    return ControlFlow::Continue(());
                };
                reading.take(&record.by_ref());
                if reading.is_full() && sender.blocking_send(reading.cut(partition).slice).is_err()
                {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            })?;
            for (partition, mut reading) in readings {
                if reading.has_moved()
                    && sender.blocking_send(reading.cut(partition).slice).is_err()
                {
                    break;
                }
            }
            Ok(())
        });
        (receiver, reading)
    }

    /// Tries for a while what may pass.
    async fn flush(&mut self) -> Result<(), SinkError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.sink.flush().await {
                Ok(_) => return Ok(()),
                Err(SinkError::Transient(why)) if Instant::now() < deadline => {
                    tracing::debug!(why, "trying again");
                    sleep(RETRY).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}
