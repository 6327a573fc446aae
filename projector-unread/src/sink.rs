//! The projection's sink, which is one Redis node (PROTOCOL R1, R2).

use std::{sync::Arc, time::Instant};

use event_log::LogReader;
use projection::{Coverage, EventBatch, Sink, SinkError};
use schemas::{LogPosition, Partition, PartitionMap, topics::Topic};
use service_runtime::ReadinessCheck;
use unread_rebuild::RebuildQueue;
use unread_store::{
    BatchOutcome, Connection, Generation, Node, PositionMove, ResumePlan, StoredPosition,
    StoredPositions, UnreadError,
};

use crate::{batch::Batch, log_end::log_end, metrics::SinkMetrics};

/// Writes batches to a node. Positions move by compare-and-set from those that this sink has written last.
pub(crate) struct UnreadSink {
    node: Node,
    log: Arc<LogReader>,
    rebuilds: RebuildQueue,
    gate: ReadinessCheck,
    metrics: SinkMetrics,
    /// `None` before the first use and after an error. Positions were read first on every connection here.
    connection: Option<Connection>,
    /// The positions of the assigned partitions, as this sink has read or written them last.
    remembered: StoredPositions,
    batch: Batch,
}

/// How often positions may be missing right after they were written.
const MAX_ATTEMPTS: usize = 5;

impl UnreadSink {
    pub(crate) fn new(
        node: Node,
        log: Arc<LogReader>,
        rebuilds: RebuildQueue,
        gate: ReadinessCheck,
    ) -> Self {
        Self {
            node,
            log,
            rebuilds,
            gate,
            metrics: SinkMetrics::new(),
            connection: None,
            remembered: StoredPositions::default(),
            batch: Batch::default(),
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
        let connected = self.node.connect().await;
        self.check(connected)
    }

    /// Fails with [`SinkError::Moved`] if the node's positions are not the remembered ones.
    async fn verify_positions(&mut self, connection: &Connection) -> Result<(), SinkError> {
        let found = connection.read_positions().await;
        let found = self.check(found)?;
        self.gate.ready();
        let moved = |(partition, stored): &(Partition, StoredPosition)| {
            found.get(*partition) != Some(*stored)
        };
        match self.remembered.iter().find(moved) {
            None => Ok(()),
            Some((partition, _)) => Err(SinkError::Moved(format!(
                "the position of partition {partition} in redis is not the one written last"
            ))),
        }
    }

    /// The node's positions, after initialising or repairing them where necessary.
    async fn complete_positions(
        &mut self,
        connection: &Connection,
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
                            "redis has lost its newest writes, or was emptied"
                        );
                    }
                    return Ok(found);
                }
                ResumePlan::Initialise => self.initialise(connection).await?,
                ResumePlan::Repair(positions) => self.repair(connection, &positions).await?,
            }
        }
        Err(SinkError::Transient(
            "redis loses its positions as soon as they are written".to_owned(),
        ))
    }

    /// Writes positions that are missing. Where the log no longer has the start from which a partition would be read again, a new
    /// generation begins.
    async fn repair(
        &mut self,
        connection: &Connection,
        positions: &[(Partition, StoredPosition)],
    ) -> Result<(), SinkError> {
        let from_start = |(partition, stored): &(Partition, StoredPosition)| {
            (stored.position == LogPosition::default()).then_some(*partition)
        };
        let from_start: Vec<Partition> = positions.iter().filter_map(from_start).collect();
        tracing::warn!(
            count = positions.len(),
            ?from_start,
            "redis has lost some positions"
        );
        let bounds = self
            .log
            .blocking(move |log| log.bounds(Topic::Events, &from_start));
        let bounds = bounds
            .await
            .map_err(|fault| SinkError::Transient(fault.to_string()))?;
        if bounds.values().any(|bounds| bounds.start > 0) {
            return self.initialise(connection).await;
        }
        let repaired = connection.repair_positions(positions).await;
        self.check(repaired)
    }

    /// Begins a new generation at the end of the log. All users are rebuilt from then on, from contact rows that reach at least that end,
    /// so no event before it has to be applied.
    async fn initialise(&mut self, connection: &Connection) -> Result<(), SinkError> {
        let end = log_end(&self.log).await;
        let end = end.map_err(|fault| SinkError::Transient(fault.to_string()))?;
        let initialised = connection.initialise_positions(&end).await;
        let generation = self.check(initialised)?;
        tracing::warn!(%generation, "redis lacked positions: all users will be rebuilt");
        Ok(())
    }

    /// The position moves of the batch, and their generation.
    fn moves(&self) -> Result<Option<(Generation, Vec<PositionMove>)>, SinkError> {
        let mut generation = None;
        let mut moves = Vec::with_capacity(self.batch.behind().len());
        for (partition, behind) in self.batch.behind().iter() {
            let from = self.remembered.get(partition).ok_or_else(|| {
                SinkError::Moved(format!("partition {partition} has no position yet"))
            })?;
            generation = Some(from.generation);
            let to = StoredPosition {
                position: *behind,
                ..from
            };
            if to != from {
                moves.push(PositionMove {
                    partition,
                    from,
                    to,
                });
            }
        }
        Ok(generation.map(|generation| (generation, moves)))
    }

    async fn apply(
        &mut self,
        generation: Generation,
        moves: &[PositionMove],
    ) -> Result<BatchOutcome, SinkError> {
        let mut connection = self.verified_connection().await?;
        let applied = connection.apply_batch(generation, self.batch.updates(), moves);
        match applied.await {
            Err(UnreadError::PositionsMoved) => Err(SinkError::Moved(
                "another process has moved the positions in redis, or they were deleted".to_owned(),
            )),
            outcome => self.check(outcome),
        }
    }

    /// Drops the connection after an error. The outcome of the last call is unknown; the positions on the next connection show it.
    fn check<T>(&mut self, outcome: Result<T, UnreadError>) -> Result<T, SinkError> {
        outcome.map_err(|error| {
            self.connection = None;
            let reason = error.to_string();
            self.gate.not_ready(reason.clone());
            SinkError::Transient(reason)
        })
    }
}

impl Sink for UnreadSink {
    async fn resume(
        &mut self,
        partitions: &[Partition],
    ) -> Result<PartitionMap<LogPosition>, SinkError> {
        self.batch.release(partitions);
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let found = self.complete_positions(&connection).await?;
        // Only now: the plan compares with the former ones.
        for partition in partitions {
            if let Some(stored) = found.get(*partition) {
                self.remembered.insert(*partition, stored);
            }
        }
        self.connection = Some(connection.clone());
        // The positions of partitions that were assigned before may have been moved by another process.
        self.verify_positions(&connection).await?;
        Ok(partitions
            .iter()
            .filter_map(|p| Some((*p, found.get(*p)?.position)))
            .collect())
    }

    fn absorb(&mut self, batch: EventBatch) {
        self.batch.absorb(&batch);
    }

    fn pending(&self) -> usize {
        self.batch.counts()
    }

    async fn flush(&mut self) -> Result<Coverage, SinkError> {
        let begun = Instant::now();
        let Some((generation, moves)) = self.moves()? else {
            return Ok(Coverage::Whole);
        };
        let outcome = match self.apply(generation, &moves).await {
            Ok(outcome) => outcome,
            Err(error) => {
                self.metrics.failed();
                return Err(error);
            }
        };
        for PositionMove { partition, to, .. } in &moves {
            self.remembered.insert(*partition, *to);
        }
        let batch = std::mem::take(&mut self.batch);
        self.metrics.applied(&batch, begun, outcome.absent.len());
        if !outcome.absent.is_empty() {
            self.rebuilds.push(&outcome.absent);
        }
        Ok(Coverage::Whole)
    }

    async fn verify(&mut self) -> Result<Coverage, SinkError> {
        match self.connection.clone() {
            Some(connection) => self.verify_positions(&connection).await?,
            None => self.verified_connection().await.map(drop)?,
        }
        Ok(Coverage::Whole)
    }

    fn release(&mut self, partitions: &[Partition]) {
        self.batch.release(partitions);
        for partition in partitions {
            self.remembered.remove(*partition);
        }
    }
}
