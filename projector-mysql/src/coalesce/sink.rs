use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use futures::future::join_all;
use message_store::{MessageStore, Resume, Shard, StoreError};
use projection::{Position, Sink, SinkError, Slice};
use schemas::Partition;
use tokio_util::task::AbortOnDropHandle;

use super::{
    MergedRow, open_read,
    open_read::OpenRead,
    target::{Target, Told, told},
};
use crate::{
    ledger::{position_of, resume_of},
    metrics,
    outcome::{Gravest, sink_error},
};

/// After so many failures in a row the others go on without a database.
const PATIENCE: u32 = 3;

/// How often a database that was set aside is asked whether it is back.
const KNOCK_EVERY: Duration = Duration::from_secs(1);

/// Keeps the newest value per row in memory, and writes it to one database or to several.
///
/// Every database is written by itself and moves every partition, also where it has no row of it (PROTOCOL M1). Where
/// there are several, one that cannot be used is set aside; once it answers again, everything resumes from the lowest.
pub(crate) struct CoalescingSink<R: MergedRow> {
    store: MessageStore,
    topic: String,
    targets: Vec<Target<R>>,
    /// Databases that were set aside, each with one who waits until it answers.
    aside: BTreeMap<Shard, AbortOnDropHandle<()>>,
    verify_every: Duration,
    verified: Instant,
}

impl<R: MergedRow> CoalescingSink<R> {
    pub(crate) fn new(
        store: MessageStore,
        shards: &[Shard],
        topic: &str,
        verify_every: Duration,
    ) -> Self {
        Self {
            store,
            topic: topic.to_owned(),
            targets: shards.iter().copied().map(Target::new).collect(),
            aside: BTreeMap::new(),
            verify_every,
            verified: Instant::now(),
        }
    }

    /// Where each database that is in use stands.
    async fn read_positions(
        &self,
        partitions: &[Partition],
    ) -> Vec<(usize, Result<BTreeMap<Partition, Resume>, StoreError>)> {
        let asked = self.in_use().map(async |index| {
            let shard = self.targets[index].shard;
            let read = self
                .store
                .read_resume(shard, R::SINK, &self.topic, partitions);
            (index, read.await)
        });
        join_all(asked).await
    }

    fn in_use(&self) -> impl Iterator<Item = usize> {
        let is_used = |(_, target): &(usize, &Target<R>)| !self.aside.contains_key(&target.shard);
        self.targets
            .iter()
            .enumerate()
            .filter(is_used)
            .map(|(index, _)| index)
    }

    /// Reading goes on where the database that is furthest behind stands, with the mark that it has itself.
    fn lowest(&self, partition: Partition) -> Position {
        let stands_at = |index: usize| self.targets[index].ledger.stands_at(partition);
        let lowest = self
            .in_use()
            .filter_map(stands_at)
            .min_by_key(|at| at.next_offset);
        position_of(lowest.unwrap_or_default())
    }

    /// Goes on without this database. What is held for it is dropped: the log has it.
    fn set_aside(&mut self, index: usize, why: &SinkError) {
        let target = &mut self.targets[index];
        let shard = target.shard;
        tracing::warn!(database = shard.get(), sink = R::SINK.name(), %why, "going on without a database");
        target.forget_all();
        target.failures = 0;
        metrics::set_aside(shard, true);
        let (store, topic) = (self.store.clone(), self.topic.clone());
        let knock = tokio::spawn(async move {
            while store
                .read_resume(shard, R::SINK, &topic, &[])
                .await
                .is_err()
            {
                tokio::time::sleep(KNOCK_EVERY).await;
            }
        });
        self.aside.insert(shard, AbortOnDropHandle::new(knock));
    }

    /// Fails if a database that was set aside answers again: everything is to be read from where that one stands.
    fn look_aside(&mut self) -> Result<(), SinkError> {
        let back = self.aside.iter().find(|(_, knock)| knock.is_finished());
        match back.map(|(shard, _)| *shard) {
            Some(shard) => {
                self.readmit(shard);
                Err(SinkError::Moved(format!(
                    "database {} is back",
                    shard.get()
                )))
            }
            None => Ok(()),
        }
    }

    fn readmit(&mut self, shard: Shard) {
        self.aside.remove(&shard);
        metrics::set_aside(shard, false);
    }

    /// What to make of a database that could not be used: others may go on without it after a while.
    fn judge(&mut self, index: usize, error: SinkError, gravest: &mut Gravest) {
        let target = &mut self.targets[index];
        target.failures += 1;
        let is_hopeless = matches!(error, SinkError::Transient(_)) && target.failures >= PATIENCE;
        if is_hopeless && self.in_use().count() > 1 {
            self.set_aside(index, &error);
        } else {
            gravest.note(error);
        }
    }

    fn absorb_event(&mut self, partition: Partition, event: &projection::LogEvent) {
        let offset = event.offset;
        match told::<R>(event) {
            Told::Rows(rows) => {
                for row in rows {
                    if let Some(target) = self.target_lacking(&row, partition, offset) {
                        target.take(row);
                    }
                }
            }
            Told::Open(row, position) => {
                if let Some(target) = self.target_lacking(&row, partition, offset) {
                    target.take_open(OpenRead { position, offset });
                }
            }
        }
    }

    /// The database of a row, if it has yet to take in what this record says.
    fn target_lacking(
        &mut self,
        row: &R,
        partition: Partition,
        offset: i64,
    ) -> Option<&mut Target<R>> {
        let shard = self.store.layout().shard_of(row.table());
        let target = self
            .targets
            .iter_mut()
            .find(|target| target.shard == shard)?;
        target.lacks(partition, offset).then_some(target)
    }

    /// Looks up the ordinals of open read positions; why some stay open, where some do.
    async fn settle_open(&mut self) -> Option<String> {
        let open = self.targets.iter().flat_map(Target::open);
        let answers = open_read::settle(&self.store, &self.topic, open).await;
        for target in &mut self.targets {
            target.close(&answers.settled);
        }
        answers.waiting
    }

    /// Writes every database in use; the failures of some do not keep the others.
    async fn write_all(&mut self, gravest: &mut Gravest) {
        let writes = self.in_use().map(async |index| {
            let target = &self.targets[index];
            (index, target.write(&self.store, &self.topic).await)
        });
        for (index, outcome) in join_all(writes).await {
            match outcome {
                Ok(()) => self.targets[index].written(),
                Err(error) => self.judge(index, sink_error(error), gravest),
            }
        }
    }

    async fn compare_all(&mut self, gravest: &mut Gravest) {
        self.verified = Instant::now();
        let looks = self.in_use().map(async |index| {
            let target = &self.targets[index];
            (index, target.compare(&self.store, &self.topic).await)
        });
        for (index, outcome) in join_all(looks).await {
            match outcome {
                Ok(()) => self.targets[index].failures = 0,
                Err(error) => self.judge(index, error, gravest),
            }
        }
    }
}

impl<R: MergedRow> Sink for CoalescingSink<R> {
    async fn resume(
        &mut self,
        partitions: &[Partition],
    ) -> Result<BTreeMap<Partition, Position>, SinkError> {
        let found = self.read_positions(partitions).await;
        let mut gravest = Gravest::default();
        for (index, outcome) in found {
            match outcome {
                Ok(found) => self.targets[index].resume(found),
                Err(error) => self.judge(index, sink_error(error), &mut gravest),
            }
        }
        gravest.into_result()?;
        Ok(partitions
            .iter()
            .map(|partition| (*partition, self.lowest(*partition)))
            .collect())
    }

    fn absorb(&mut self, slice: Slice) {
        for event in &slice.events {
            self.absorb_event(slice.partition, event);
        }
        let behind = resume_of(slice.behind);
        for target in &mut self.targets {
            target.reach(slice.partition, behind);
        }
    }

    fn pending(&self) -> usize {
        self.targets.iter().map(Target::held).sum()
    }

    async fn flush(&mut self) -> Result<(), SinkError> {
        self.look_aside()?;
        let waiting = self.settle_open().await;
        let mut gravest = Gravest::default();
        self.write_all(&mut gravest).await;
        if self.verified.elapsed() >= self.verify_every {
            self.compare_all(&mut gravest).await;
        }
        if let Some(why) = waiting {
            gravest.note(SinkError::Transient(why));
        }
        gravest.into_result()
    }

    async fn verify(&mut self) -> Result<(), SinkError> {
        self.look_aside()?;
        let mut gravest = Gravest::default();
        self.compare_all(&mut gravest).await;
        gravest.into_result()
    }

    fn release(&mut self, partitions: &[Partition]) {
        for target in &mut self.targets {
            target.forget(partitions);
        }
    }
}
