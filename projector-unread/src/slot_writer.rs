//! Writes one slot of Redis (PROTOCOL R1, R2).

use std::{sync::Arc, time::Duration};

use event_log::LogReader;
use projection::SinkError;
use schemas::{LogPosition, Partition, PartitionMap, topics::Topic};
use tokio_util::task::AbortOnDropHandle;
use unread_store::{
    BatchOutcome, Connection, PositionMove, ProfileUpdate, ResumePlan, Slot, StoredPosition,
    StoredPositions, UnreadError, UserUpdate,
};

use crate::log_end::LogEnd;

/// Positions move by compare-and-set from those that this writer has written last.
pub(crate) struct SlotWriter {
    slot: Slot,
    log: Arc<LogReader>,
    /// `None` before the first use and after an error. On each connection that is here, the positions were read before anything else.
    connection: Option<Connection>,
    /// The positions of the assigned partitions, as this writer has read or written them last.
    remembered: StoredPositions,
    left_out: Option<LeftOut>,
    /// How often the slot was left out since it was last written.
    failures: u32,
}

/// A slot that cannot be used at present.
struct LeftOut {
    why: String,
    /// Ends when the slot's positions can be read and the slot takes writes.
    probe: AbortOnDropHandle<()>,
}

/// How often positions may be missing right after they were written.
const MAX_ATTEMPTS: usize = 5;

const FIRST_PROBE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

impl SlotWriter {
    pub(crate) fn new(slot: Slot, log: Arc<LogReader>) -> Self {
        Self {
            slot,
            log,
            connection: None,
            remembered: StoredPositions::default(),
            left_out: None,
            failures: 0,
        }
    }

    /// The slot's position of a partition, as this writer has read or written it last.
    pub(crate) fn position(&self, partition: Partition) -> Option<LogPosition> {
        let stored = self.remembered.get(partition)?;
        Some(stored.position)
    }

    /// The partitions of which the slot has positions.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = Partition> {
        self.remembered.iter().map(|(partition, _)| partition)
    }

    /// Why the slot is left out, if it is.
    pub(crate) fn left_out(&self) -> Option<&str> {
        let left_out = self.left_out.as_ref()?;
        Some(&left_out.why)
    }

    /// Whether the slot is left out and can be used again.
    pub(crate) fn has_recovered(&self) -> bool {
        let left_out = self.left_out.as_ref();
        left_out.is_some_and(|left_out| left_out.probe.is_finished())
    }

    /// Leaves the slot out until [`Self::resume`] succeeds. The events that the slot lacks by then are read again.
    pub(crate) fn leave_out(&mut self, why: String) {
        tracing::warn!(why, "going on without {}", self.slot);
        self.connection = None;
        self.remembered = StoredPositions::default();
        let pause = (FIRST_PROBE * 2_u32.saturating_pow(self.failures)).min(LONGEST_PAUSE);
        self.failures = (self.failures + 1).min(10);
        let probe = tokio::spawn(until_writable(self.slot.clone(), pause));
        self.left_out = Some(LeftOut {
            why: format!("{}: {why}", self.slot),
            probe: AbortOnDropHandle::new(probe),
        });
    }

    pub(crate) fn release(&mut self, partitions: &[Partition]) {
        for partition in partitions {
            self.remembered.remove(*partition);
        }
    }

    /// Reads the positions, and initialises or repairs them where necessary.
    pub(crate) async fn resume(
        &mut self,
        partitions: &[Partition],
        end: &LogEnd,
    ) -> Result<(), SinkError> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let found = self.complete_positions(&connection, end).await?;
        // Only after the plan was made, since the plan compares with the former positions.
        for partition in partitions {
            if let Some(stored) = found.get(*partition) {
                self.remembered.insert(*partition, stored);
            }
        }
        self.connection = Some(connection.clone());
        // The positions of partitions that were assigned before may have been moved by another process.
        self.verify_positions(&connection).await?;
        self.left_out = None;
        Ok(())
    }

    /// Applies updates and caches profiles, and moves the positions to `behind`.
    pub(crate) async fn apply(
        &mut self,
        updates: &[UserUpdate],
        profiles: &[ProfileUpdate],
        behind: &PartitionMap<LogPosition>,
    ) -> Result<BatchOutcome, SinkError> {
        let moves = self.moves(behind)?;
        let Some(generation) = moves.first().map(|first| first.from.generation) else {
            // The slot has these events already, and perhaps more: reading has resumed at the lower position of another slot.
            return Ok(BatchOutcome::default());
        };
        let mut connection = self.verified_connection().await?;
        // Before the positions: what was applied must be in the cache, or at least refuse an older row (PROTOCOL K6).
        let cached = connection.cache_profiles(profiles).await;
        self.check(cached)?;
        let outcome = match connection.apply_batch(generation, updates, &moves).await {
            Err(UnreadError::PositionsMoved) => Err(SinkError::Moved(format!(
                "another process has moved the positions in {}, or they were deleted",
                self.slot
            ))),
            outcome => self.check(outcome),
        }?;
        for PositionMove { partition, to, .. } in moves {
            self.remembered.insert(partition, to);
        }
        self.failures = 0;
        Ok(outcome)
    }

    /// Checks that the positions are those written last.
    pub(crate) async fn verify(&mut self) -> Result<(), SinkError> {
        match self.connection.clone() {
            Some(connection) => self.verify_positions(&connection).await,
            None => self.verified_connection().await.map(drop),
        }
    }

    /// The connection; on a new one the positions are verified first.
    async fn verified_connection(&mut self) -> Result<Connection, SinkError> {
        if let Some(connection) = &self.connection {
            return Ok(connection.clone());
        }
        let connection = self.connect().await?;
        self.verify_positions(&connection).await?;
        self.connection = Some(connection.clone());
        Ok(connection)
    }

    async fn connect(&mut self) -> Result<Connection, SinkError> {
        let connected = self.slot.connect().await;
        self.check(connected)
    }

    /// Fails with [`SinkError::Moved`] if the slot's positions are not the remembered ones.
    async fn verify_positions(&mut self, connection: &Connection) -> Result<(), SinkError> {
        let found = connection.read_positions().await;
        let found = self.check(found)?;
        let moved = |(partition, stored): &(Partition, StoredPosition)| {
            found.get(*partition) != Some(*stored)
        };
        match self.remembered.iter().find(moved) {
            None => Ok(()),
            Some((partition, _)) => Err(SinkError::Moved(format!(
                "the position of partition {partition} in {} is not the one written last",
                self.slot
            ))),
        }
    }

    /// The slot's positions, after initialising or repairing them where necessary.
    async fn complete_positions(
        &mut self,
        connection: &Connection,
        end: &LogEnd,
    ) -> Result<StoredPositions, SinkError> {
        for _ in 0..MAX_ATTEMPTS {
            let found = connection.read_positions().await;
            let found = self.check(found)?;
            match ResumePlan::new(&self.remembered, &found) {
                ResumePlan::Resume {
                    behind, replaced, ..
                } => {
                    if replaced || !behind.is_empty() {
                        tracing::warn!(
                            replaced,
                            ?behind,
                            "{} has lost its newest writes, or was emptied",
                            self.slot
                        );
                    }
                    return Ok(found);
                }
                ResumePlan::Initialise => self.initialise(connection, end).await?,
                ResumePlan::Repair(positions) => self.repair(connection, end, &positions).await?,
            }
        }
        Err(SinkError::Transient(format!(
            "{} loses its positions as soon as they are written",
            self.slot
        )))
    }

    /// Writes positions that are missing. If the log no longer has the start from which a partition would be read again, a new generation begins.
    async fn repair(
        &mut self,
        connection: &Connection,
        end: &LogEnd,
        positions: &[(Partition, StoredPosition)],
    ) -> Result<(), SinkError> {
        let from_start = |(partition, stored): &(Partition, StoredPosition)| {
            (stored.position == LogPosition::default()).then_some(*partition)
        };
        let from_start: Vec<Partition> = positions.iter().filter_map(from_start).collect();
        tracing::warn!(
            count = positions.len(),
            ?from_start,
            "{} has lost some positions",
            self.slot
        );
        let bounds = self
            .log
            .blocking(move |log| log.bounds(Topic::Events, &from_start));
        let bounds = bounds
            .await
            .map_err(|fault| SinkError::Transient(fault.to_string()))?;
        if bounds.values().any(|bounds| bounds.start > 0) {
            return self.initialise(connection, end).await;
        }
        let repaired = connection.repair_positions(positions).await;
        self.check(repaired)
    }

    /// Begins a new generation at the end of the log. All its users are rebuilt from then on, from contact rows that reach at least that
    /// end, so no event before it has to be applied.
    async fn initialise(&mut self, connection: &Connection, end: &LogEnd) -> Result<(), SinkError> {
        let end = end.get().await;
        let end = end.map_err(|fault| SinkError::Transient(fault.to_string()))?;
        let initialised = connection.initialise_positions(end).await;
        let generation = self.check(initialised)?;
        tracing::warn!(%generation, "{} lacked positions: all its users will be rebuilt", self.slot);
        Ok(())
    }

    /// The moves of the positions that are before `behind`.
    fn moves(&self, behind: &PartitionMap<LogPosition>) -> Result<Vec<PositionMove>, SinkError> {
        let mut moves = Vec::with_capacity(behind.len());
        for (partition, behind) in behind.iter() {
            let from = self.remembered.get(partition).ok_or_else(|| {
                SinkError::Moved(format!("partition {partition} has no position yet"))
            })?;
            let to = StoredPosition {
                position: *behind,
                ..from
            };
            if to.position.next > from.position.next {
                moves.push(PositionMove {
                    partition,
                    from,
                    to,
                });
            }
        }
        Ok(moves)
    }

    /// Drops the connection after an error. The outcome of the last call is unknown; the positions on the next connection show it.
    fn check<T>(&mut self, outcome: Result<T, UnreadError>) -> Result<T, SinkError> {
        outcome.map_err(|error| {
            self.connection = None;
            SinkError::Transient(error.to_string())
        })
    }
}

async fn until_writable(slot: Slot, pause: Duration) {
    loop {
        tokio::time::sleep(pause).await;
        let probe = async {
            let connection = slot.connect().await?;
            connection.read_positions().await?;
            connection.probe_write().await
        };
        if probe.await.is_ok() {
            return;
        }
    }
}
