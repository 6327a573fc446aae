//! The projection's sink: one Redis node (PROTOCOL R1, R2).

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use event_log::LogReader;
use projection::{Coverage, EventBatch, Sink, SinkError};
use schemas::{LogPosition, Partition};
use service_runtime::ReadinessCheck;
use unread_rebuild::RebuildQueue;
use unread_store::{
    BatchOutcome, Connection, Generation, Node, PositionMove, ResumePlan, StoredPosition,
    StoredPositions, UnreadError,
};

use crate::{batch::Batch, log_end::log_end, metrics::SinkMetrics};

/// Writes batches to a node, with watermarks that move only from where this sink left them.
pub(crate) struct UnreadSink {
    node: Node,
    log: Arc<LogReader>,
    rebuilds: RebuildQueue,
    gate: ReadinessCheck,
    metrics: SinkMetrics,
    /// None before the first use and after an error. On one that is kept, the watermarks were read first.
    connection: Option<Connection>,
    /// The watermarks of the partitions that this sink owns, as it left them.
    remembered: StoredPositions,
    batch: Batch,
}

/// How often watermarks may turn out to be missing right after they were written.
const SETTLE_ATTEMPTS: usize = 5;

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

    /// A connection on which the watermarks were read first and stood where this sink left them.
    async fn settled(&mut self) -> Result<Connection, SinkError> {
        if let Some(connection) = &self.connection {
            return Ok(connection.clone());
        }
        let connection = self.connect().await?;
        self.compare(&connection).await?;
        self.connection = Some(connection.clone());
        Ok(connection)
    }

    async fn connect(&mut self) -> Result<Connection, SinkError> {
        let connected = self.node.connect().await;
        self.check(connected)
    }

    /// Whether the node's watermarks are those that this sink left there.
    async fn compare(&mut self, connection: &Connection) -> Result<(), SinkError> {
        let found = connection.read_positions().await;
        let found = self.check(found)?;
        self.gate.ready();
        let moved = |(partition, watermark): &(Partition, StoredPosition)| {
            found.get(*partition) != Some(*watermark)
        };
        match self.remembered.iter().find(moved) {
            None => Ok(()),
            Some((partition, _)) => Err(SinkError::Moved(format!(
                "the watermark of partition {partition} in redis is not as it was left"
            ))),
        }
    }

    /// The node's watermarks, whole and of one generation; written anew where they are not.
    async fn whole_marks(&mut self, connection: &Connection) -> Result<StoredPositions, SinkError> {
        for _ in 0..SETTLE_ATTEMPTS {
            let found = connection.read_positions().await;
            let found = self.check(found)?;
            match ResumePlan::new(&self.remembered, &found) {
                ResumePlan::Resume {
                    behind, replaced, ..
                } => {
                    if replaced || !behind.is_empty() {
                        tracing::warn!(replaced, ?behind, "redis is not as it was left");
                    }
                    return Ok(found);
                }
                ResumePlan::Initialise => self.initialise(connection).await?,
                ResumePlan::Repair(watermarks) => {
                    tracing::warn!(count = watermarks.len(), "redis had lost some watermarks");
                    let repaired = connection.repair_positions(&watermarks).await;
                    self.check(repaired)?;
                }
            }
        }
        Err(SinkError::Transient(
            "redis loses its watermarks as soon as they are written".to_owned(),
        ))
    }

    /// Begins a new generation at the end of the log. Whoever is rebuilt from then on has a barrier behind that end, so nothing before it
    /// has to be applied.
    async fn initialise(&mut self, connection: &Connection) -> Result<(), SinkError> {
        let end = log_end(&self.log).await;
        let end = end.map_err(|fault| SinkError::Transient(fault.to_string()))?;
        let initialised = connection.initialise_positions(&end).await;
        let generation = self.check(initialised)?;
        tracing::warn!(%generation, "redis was without its watermarks: everybody is to be rebuilt");
        Ok(())
    }

    /// The moves that the batch makes, and the generation they are of.
    fn moves(&self) -> Result<Option<(Generation, Vec<PositionMove>)>, SinkError> {
        let mut generation = None;
        let mut moves = Vec::with_capacity(self.batch.behind().len());
        for (partition, behind) in self.batch.behind() {
            let from = self.remembered.get(*partition).ok_or_else(|| {
                SinkError::Moved(format!("partition {partition} was not resumed"))
            })?;
            generation = Some(from.generation);
            let to = StoredPosition {
                position: *behind,
                ..from
            };
            if to != from {
                moves.push(PositionMove {
                    partition: *partition,
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
        let mut connection = self.settled().await?;
        let applied = connection.apply_batch(generation, self.batch.updates(), moves);
        match applied.await {
            Err(UnreadError::PositionsMoved) => Err(SinkError::Moved(
                "another has moved the watermarks in redis, or they are gone".to_owned(),
            )),
            outcome => self.check(outcome),
        }
    }

    /// Drops the connection after an error: what was sent last may have been done or not, which the watermarks tell on the next one.
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
    ) -> Result<BTreeMap<Partition, LogPosition>, SinkError> {
        self.batch.forget(partitions);
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let found = self.whole_marks(&connection).await?;
        // Only now: until then it is what the plan compares with.
        for partition in partitions {
            if let Some(stored) = found.get(*partition) {
                self.remembered.insert(*partition, stored);
            }
        }
        self.connection = Some(connection.clone());
        // Those that were owned before may have been left elsewhere.
        self.compare(&connection).await?;
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
            self.rebuilds.want(&outcome.absent);
        }
        Ok(Coverage::Whole)
    }

    async fn verify(&mut self) -> Result<Coverage, SinkError> {
        match self.connection.clone() {
            Some(connection) => self.compare(&connection).await?,
            None => self.settled().await.map(drop)?,
        }
        Ok(Coverage::Whole)
    }

    fn release(&mut self, partitions: &[Partition]) {
        self.batch.forget(partitions);
        for partition in partitions {
            self.remembered.remove(*partition);
        }
    }
}
