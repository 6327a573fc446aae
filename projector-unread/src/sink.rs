//! The projection's sink: Redis, which is one slot, or 64 in a cluster.

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use event_log::LogReader;
use futures::future::join_all;
use projection::{Coverage, EventBatch, Sink, SinkError};
use schemas::{LogPosition, Partition, PartitionMap, UserId};
use service_runtime::ReadinessCheck;
use unread_rebuild::RebuildQueue;
use unread_store::UnreadStore;

use crate::{batch::Batch, log_end::LogEnd, metrics::SinkMetrics, slot_writer::SlotWriter};

/// Writes batches to all slots, each by itself and with all its positions. If there are several, one that fails is left out. Once it can be used
/// again, everything resumes from the lowest positions.
pub(crate) struct UnreadSink {
    slots: Vec<SlotWriter>,
    log: Arc<LogReader>,
    rebuilds: RebuildQueue,
    gate: ReadinessCheck,
    metrics: SinkMetrics,
    batch: Batch,
    /// Whether all slots have refused the batch. A slot that can be read may still refuse writes, as a full Redis does.
    is_refused: bool,
}

impl UnreadSink {
    pub(crate) fn new(
        store: &UnreadStore,
        log: Arc<LogReader>,
        rebuilds: RebuildQueue,
        gate: ReadinessCheck,
    ) -> Self {
        let slots = store.slots().iter();
        Self {
            slots: slots
                .map(|slot| SlotWriter::new(slot.clone(), Arc::clone(&log)))
                .collect(),
            log,
            rebuilds,
            gate,
            metrics: SinkMetrics::new(),
            batch: Batch::new(store.slots().len()),
            is_refused: false,
        }
    }

    /// Fails if a slot has recovered: everything is read again from its positions.
    fn check_recovered(&self) -> Result<(), SinkError> {
        if self.slots.iter().any(SlotWriter::has_recovered) {
            return Err(SinkError::Moved("slots of Redis have recovered".to_owned()));
        }
        Ok(())
    }

    /// Slots that are left out come back only if every partition in use is resumed now: what they lack of other partitions would not be read again.
    /// So if a slot has recovered, everything is to be resumed.
    fn resumable(
        &mut self,
        partitions: &[Partition],
    ) -> Result<impl Iterator<Item = (usize, &mut SlotWriter)>, SinkError> {
        let is_whole = |slot: &SlotWriter| slot.partitions().all(|one| partitions.contains(&one));
        let are_all = self.slots.iter().all(is_whole);
        if !are_all {
            self.check_recovered()?;
        }
        let slots = self.slots.iter_mut().enumerate();
        Ok(slots.filter(move |(_, slot)| {
            slot.left_out().is_none() || (are_all && slot.has_recovered())
        }))
    }

    /// Leaves out the slots that failed. If all failed, none is left out, and the call is repeated.
    fn settle<T>(
        &mut self,
        outcomes: Vec<(usize, Result<T, SinkError>)>,
    ) -> Result<Vec<T>, SinkError> {
        let (mut succeeded, mut failed, mut severe) = (Vec::new(), Vec::new(), None);
        for (index, outcome) in outcomes {
            match outcome {
                Ok(value) => succeeded.push(value),
                Err(SinkError::Transient(why)) => failed.push((index, why)),
                Err(error) => severe = Some(error),
            }
        }
        if let (true, None, Some((_, why))) = (succeeded.is_empty(), &severe, failed.first()) {
            self.gate.not_ready(why.clone());
            return Err(SinkError::Transient(why.clone()));
        }
        for (index, why) in failed {
            self.slots[index].leave_out(why);
        }
        match self.coverage() {
            Coverage::Whole if self.is_refused => {}
            Coverage::Whole => self.gate.ready(),
            Coverage::Without(why) => self.gate.not_ready(why),
        }
        severe.map_or(Ok(succeeded), Err)
    }

    fn coverage(&self) -> Coverage {
        let left_out: Vec<&str> = self.slots.iter().filter_map(SlotWriter::left_out).collect();
        match &left_out[..] {
            [] => Coverage::Whole,
            [one] => Coverage::Without((*one).to_owned()),
            [one, others @ ..] => Coverage::Without(format!("{one}; and {} more", others.len())),
        }
    }
}

impl Sink for UnreadSink {
    async fn resume(
        &mut self,
        partitions: &[Partition],
    ) -> Result<PartitionMap<LogPosition>, SinkError> {
        self.batch.release(partitions);
        self.is_refused = false;
        let end = LogEnd::new(Arc::clone(&self.log));
        let slots = self.resumable(partitions)?;
        let resumes = slots.map(async |(index, slot)| (index, slot.resume(partitions, &end).await));
        let outcomes = join_all(resumes).await;
        self.settle(outcomes)?;
        // The lowest position, with the watermark stored beside it. Events that a slot has already change nothing when they are applied again.
        let lowest = |partition: &Partition| {
            let stored = self
                .slots
                .iter()
                .filter_map(|slot| slot.position(*partition));
            Some((*partition, stored.min_by_key(|at| at.next)?))
        };
        Ok(partitions.iter().filter_map(lowest).collect())
    }

    fn positions(&self, partition: Partition) -> BTreeSet<LogPosition> {
        let slots = self.slots.iter();
        slots.filter_map(|slot| slot.position(partition)).collect()
    }

    fn absorb(&mut self, batch: EventBatch) {
        self.batch.absorb(&batch);
    }

    fn pending(&self) -> usize {
        self.batch.counts()
    }

    async fn flush(&mut self) -> Result<Coverage, SinkError> {
        self.check_recovered()?;
        if self.batch.behind().is_empty() {
            return Ok(self.coverage());
        }
        let begun = Instant::now();
        let batch = &self.batch;
        let writes = in_use(&mut self.slots).map(async |(index, slot)| {
            let profiles = batch.profiles(index);
            let written = slot.apply(batch.updates(index), &profiles, batch.behind());
            (index, written.await)
        });
        let outcomes = join_all(writes).await;
        self.is_refused = outcomes.iter().all(|(_, outcome)| outcome.is_err());
        let outcomes = match self.settle(outcomes) {
            Ok(outcomes) => outcomes,
            Err(error) => {
                self.metrics.failed();
                return Err(error);
            }
        };
        let absent: Vec<UserId> = outcomes
            .into_iter()
            .flat_map(|outcome| outcome.absent)
            .collect();
        self.metrics.applied(&self.batch, begun, absent.len());
        self.batch = Batch::new(self.slots.len());
        if !absent.is_empty() {
            self.rebuilds.push(&absent);
        }
        Ok(self.coverage())
    }

    async fn verify(&mut self) -> Result<Coverage, SinkError> {
        self.check_recovered()?;
        let checks =
            in_use(&mut self.slots).map(async |(index, slot)| (index, slot.verify().await));
        let outcomes = join_all(checks).await;
        self.settle(outcomes)?;
        Ok(self.coverage())
    }

    fn release(&mut self, partitions: &[Partition]) {
        self.batch.release(partitions);
        self.is_refused &= !self.batch.behind().is_empty();
        for slot in &mut self.slots {
            slot.release(partitions);
        }
    }
}

fn in_use(slots: &mut [SlotWriter]) -> impl Iterator<Item = (usize, &mut SlotWriter)> {
    let slots = slots.iter_mut().enumerate();
    slots.filter(|(_, slot)| slot.left_out().is_none())
}
