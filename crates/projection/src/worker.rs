//! A partition worker: takes batches of its partitions into a sink and has them written.

use std::{
    future::pending,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc as sync_mpsc,
    },
    time::Duration,
};

use event_log::{AssignmentGeneration, HaltedPartitions, LogReader};
use metrics::Counter;
use schemas::{NextOffset, Partition, PartitionMap};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    Coverage, Settings, Sink, SinkError,
    channels::{FetchCommand, FetchedBatch, WorkerCommand},
    dead_letters::DeadLetters,
    lag::StoredOffsets,
    truncation_check::TruncationCheck,
};

/// How long the last flush may take before partitions are released.
const LAST_FLUSH: Duration = Duration::from_secs(5);
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// A call of the sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Resume,
    Flush,
    Verify,
}

/// The worker's ends of its channels.
pub(crate) struct WorkerChannels {
    pub(crate) commands: mpsc::UnboundedReceiver<WorkerCommand>,
    pub(crate) batches: mpsc::UnboundedReceiver<FetchedBatch>,
    pub(crate) queued: Arc<AtomicUsize>,
    pub(crate) fetch: sync_mpsc::Sender<FetchCommand>,
    pub(crate) stored: watch::Sender<StoredOffsets>,
    pub(crate) dead_letters: Arc<DeadLetters>,
    pub(crate) log: Arc<LogReader>,
    /// Counts the events that the sink took.
    pub(crate) events: Counter,
    pub(crate) halted: HaltedPartitions,
    /// Why this worker makes no progress, if it makes none.
    pub(crate) fault: watch::Sender<Option<String>>,
}

type PendingDeadLetters = Pin<Box<dyn Future<Output = FetchedBatch> + Send>>;

pub(crate) struct PartitionWorker<S> {
    sink: S,
    settings: Settings,
    channels: WorkerChannels,
    /// The worker's partitions, with their current generation; `None` until they have resumed.
    owned: PartitionMap<Option<AssignmentGeneration>>,
    /// The owned partitions that are halted, and when to try them again.
    halted: PartitionMap<Instant>,
    last_generation: AssignmentGeneration,
    truncation_check: TruncationCheck,
    /// The positions after the batches absorbed since the last flush, and when the first of these was absorbed.
    absorbed: PartitionMap<NextOffset>,
    oldest_absorbed: Instant,
    /// A batch whose poison records are being dead-lettered. Later batches wait for it; commands and flushes do not.
    dead_lettering: Option<PendingDeadLetters>,
    /// When the sink last verified that the store is unchanged.
    verified: Instant,
    /// The part of the store that the sink cannot use at present.
    left_out: Option<String>,
    retry_at: Instant,
    retry_after: Duration,
}

impl<S: Sink> PartitionWorker<S> {
    pub(crate) fn new(sink: S, settings: Settings, channels: WorkerChannels) -> Self {
        let now = Instant::now();
        let truncation_check = TruncationCheck::new(Arc::clone(&channels.log));
        Self {
            sink,
            settings,
            channels,
            owned: PartitionMap::new(),
            halted: PartitionMap::new(),
            last_generation: AssignmentGeneration::default(),
            truncation_check,
            absorbed: PartitionMap::new(),
            oldest_absorbed: now,
            dead_lettering: None,
            verified: now,
            left_out: None,
            retry_at: now,
            retry_after: FIRST_RETRY,
        }
    }

    /// Runs until `soft` is cancelled, then writes what is pending, within a deadline.
    pub(crate) async fn run(mut self, soft: CancellationToken) -> Result<(), String> {
        loop {
            self.retry_halted();
            let (operation, due) = self.next_operation();
            let takes_more = self.takes_more() && self.dead_lettering.is_none();
            tokio::select! {
                biased;
                () = soft.cancelled() => return self.last_flush().await,
                command = self.channels.commands.recv() => match command {
                    Some(command) => self.handle_command(command).await?,
                    None => return Ok(()),
                },
                fetched = dead_lettered(&mut self.dead_lettering) => {
                    self.dead_lettering = None;
                    self.absorb(fetched);
                }
                fetched = self.channels.batches.recv(), if takes_more => match fetched {
                    Some(fetched) => self.take_batch(fetched),
                    None => return Ok(()),
                },
                () = tokio::time::sleep_until(due) => {
                    let outcome = self.perform(operation).await;
                    self.handle_outcome(operation, outcome)?;
                }
            }
        }
    }

    fn takes_more(&self) -> bool {
        self.sink.pending() < self.settings.max_pending
    }

    fn resuming(&self) -> impl Iterator<Item = Partition> {
        let resumes = |(partition, generation): (Partition, &Option<AssignmentGeneration>)| {
            let resumes = generation.is_none() && !self.halted.contains(partition);
            resumes.then_some(partition)
        };
        self.owned.iter().filter_map(resumes)
    }

    /// Reads the positions of halted partitions again, once their time to retry has come and everything read before is written: the cause of the halt may be
    /// gone.
    fn retry_halted(&mut self) {
        let now = Instant::now();
        let is_due = |(partition, at): (Partition, &Instant)| {
            (*at <= now && !self.absorbed.contains(partition)).then_some(partition)
        };
        let due: Vec<Partition> = self.halted.iter().filter_map(is_due).collect();
        for partition in due {
            self.halted.remove(partition);
            self.read_position_again(partition);
        }
    }

    fn read_position_again(&mut self, partition: Partition) {
        if let Some(generation) = self.owned.get_mut(partition) {
            *generation = None;
            self.absorbed.remove(partition);
        }
    }

    /// Halts a partition until the next try; records before the cause are still written.
    fn halt(&mut self, partition: Partition, before: Option<NextOffset>, why: String) {
        if self.owned.contains(partition) {
            let retry_at = Instant::now() + HaltedPartitions::RETRY;
            self.halted.insert(partition, retry_at);
            self.channels.halted.halt(partition, before, why);
        }
    }

    /// The next call of the sink, and when it is due. An overdue verification goes before a flush, since flushes may fail for long.
    fn next_operation(&self) -> (Operation, Instant) {
        let verify_at = self.verified + self.settings.verify_every;
        let (operation, due) = if self.resuming().next().is_some() {
            (Operation::Resume, self.retry_at)
        } else if self.absorbed.is_empty() || verify_at <= Instant::now() {
            (Operation::Verify, verify_at)
        } else if self.takes_more() {
            let flush_at = self.oldest_absorbed + self.settings.interval;
            [(Operation::Flush, flush_at), (Operation::Verify, verify_at)]
                .into_iter()
                .min_by_key(|(_, at)| *at)
                .expect("there are two")
        } else {
            (Operation::Flush, self.oldest_absorbed)
        };
        (operation, due.max(self.retry_at))
    }

    async fn perform(&mut self, operation: Operation) -> Result<Coverage, SinkError> {
        match operation {
            Operation::Resume => {
                self.resume().await?;
                Ok(self
                    .left_out
                    .clone()
                    .map_or(Coverage::Whole, Coverage::Without))
            }
            Operation::Flush => self.sink.flush().await,
            Operation::Verify => {
                self.verified = Instant::now();
                self.sink.verify().await
            }
        }
    }

    async fn handle_command(&mut self, command: WorkerCommand) -> Result<(), String> {
        match command {
            WorkerCommand::Assign(partitions) => {
                self.owned
                    .extend(partitions.into_iter().map(|partition| (partition, None)));
                Ok(())
            }
            WorkerCommand::Revoke(partitions, guard) => {
                let flushed = self.last_flush().await;
                self.release(&partitions);
                drop(guard);
                flushed
            }
            WorkerCommand::CheckTruncation {
                partition,
                leader_epoch,
            } => {
                self.read_position_again(partition);
                if let Some(epoch) = leader_epoch.filter(|_| self.owned.contains(partition)) {
                    self.truncation_check.record_leader(partition, epoch);
                }
                Ok(())
            }
            WorkerCommand::Halt {
                partition,
                before,
                why,
            } => {
                self.halt(partition, before, why);
                Ok(())
            }
        }
    }

    fn release(&mut self, partitions: &[Partition]) {
        self.sink.release(partitions);
        for &partition in partitions {
            self.owned.remove(partition);
            self.halted.remove(partition);
            self.channels.halted.release(partition);
            self.absorbed.remove(partition);
            self.truncation_check.forget(partition);
            self.command(FetchCommand::Stop { partition });
        }
        self.channels
            .stored
            .send_modify(|stored| stored.retain(|partition, _| !partitions.contains(&partition)));
    }

    /// Reads the resume positions of new partitions from the store, and starts them there. Those with a position that the log does not agree
    /// with are halted.
    async fn resume(&mut self) -> Result<(), SinkError> {
        let resuming: Vec<Partition> = self.resuming().collect();
        let positions = self.sink.resume(&resuming).await?;
        let position_of =
            |partition: Partition| positions.get(partition).copied().unwrap_or_default();
        let stored_of = |&partition: &Partition| {
            let mut stored = self.sink.positions(partition);
            stored.insert(position_of(partition));
            (partition, stored)
        };
        let stored = resuming.iter().map(stored_of).collect();
        let mut refused = self.truncation_check.check(stored, &self.settings).await?;
        for partition in resuming {
            if let Some(why) = refused.remove(partition) {
                self.halt(partition, None, why);
                continue;
            }
            let at = position_of(partition);
            self.channels.halted.resumed(partition, at.next);
            let generation = self.last_generation.advance();
            self.owned.insert(partition, Some(generation));
            self.command(FetchCommand::Start {
                partition,
                at,
                generation,
                leader_epoch: self.truncation_check.leader_epoch(partition),
            });
            self.channels.stored.send_modify(|stored| {
                stored.insert(partition, at.next);
            });
        }
        Ok(())
    }

    fn take_batch(&mut self, fetched: FetchedBatch) {
        self.channels
            .queued
            .fetch_sub(fetched.bytes, Ordering::Relaxed);
        if fetched.poison.is_empty() {
            return self.absorb(fetched);
        }
        let dead_letters = Arc::clone(&self.channels.dead_letters);
        let fault = self.channels.fault.clone();
        self.dead_lettering = Some(Box::pin(async move {
            for poison in &fetched.poison {
                let on_failure = |error| report_fault(&fault, error);
                dead_letters.dead_letter(poison, on_failure).await;
            }
            fetched
        }));
    }

    fn absorb(&mut self, fetched: FetchedBatch) {
        let FetchedBatch {
            generation, batch, ..
        } = fetched;
        if self.owned.get(batch.partition) != Some(&Some(generation)) {
            return;
        }
        if self.absorbed.is_empty() {
            self.oldest_absorbed = Instant::now();
        }
        self.absorbed.insert(batch.partition, batch.end.next);
        self.channels
            .halted
            .resumed(batch.partition, batch.end.next);
        self.channels.events.increment(batch.events.len() as u64);
        self.sink.absorb(batch);
    }

    /// A flush with a deadline. Records not written by then are dropped with the partitions: the next owner reads them again from the store's
    /// position.
    async fn last_flush(&mut self) -> Result<(), String> {
        if self.absorbed.is_empty() {
            return Ok(());
        }
        let flush = tokio::time::timeout(LAST_FLUSH, self.sink.flush());
        let outcome = flush.await.unwrap_or_else(|_| {
            let late = "a flush before partitions are released took too long";
            Err(SinkError::Transient(late.to_owned()))
        });
        self.handle_outcome(Operation::Flush, outcome)
    }

    fn handle_outcome(
        &mut self,
        operation: Operation,
        outcome: Result<Coverage, SinkError>,
    ) -> Result<(), String> {
        match outcome {
            Ok(coverage) => {
                if operation == Operation::Flush {
                    self.record_flushed(&coverage);
                }
                self.handle_success(coverage);
            }
            Err(SinkError::Transient(error)) => {
                self.retry_at = Instant::now() + self.retry_after;
                self.retry_after = (self.retry_after * 2).min(LONGEST_RETRY);
                report_fault(&self.channels.fault, error);
            }
            Err(SinkError::Moved(why)) => self.resume_again(&why),
            Err(SinkError::Fatal(error)) => return Err(error),
        }
        Ok(())
    }

    /// Publishes the flushed positions, or none if a part of the store was left out: the projection still lags there.
    fn record_flushed(&mut self, coverage: &Coverage) {
        let absorbed = std::mem::take(&mut self.absorbed);
        if *coverage == Coverage::Whole {
            self.channels
                .stored
                .send_modify(|stored| stored.extend(absorbed));
        }
    }

    fn handle_success(&mut self, coverage: Coverage) {
        self.left_out = match coverage {
            Coverage::Whole => None,
            Coverage::Without(part) => Some(part),
        };
        // While a batch is pending, only its flush or its dead letters show whether the worker can write.
        if !self.absorbed.is_empty() || self.dead_lettering.is_some() {
            return;
        }
        self.retry_after = FIRST_RETRY;
        let fault = self
            .left_out
            .as_ref()
            .map(|part| format!("going on without {part}"));
        self.channels.fault.send_if_modified(|shown| {
            let changed = *shown != fault;
            *shown = fault;
            changed
        });
    }

    fn resume_again(&mut self, why: &str) {
        tracing::warn!(why, "reading the positions again");
        self.retry_at = Instant::now() + FIRST_RETRY;
        self.absorbed.clear();
        self.halted.clear();
        for generation in self.owned.values_mut() {
            *generation = None;
        }
    }

    fn command(&self, command: FetchCommand) {
        // The coordinator notices when the fetch thread ends.
        let _ = self.channels.fetch.send(command);
    }
}

/// Returns the batch, once its poison records are on the dead-letter topic.
async fn dead_lettered(pending_batch: &mut Option<PendingDeadLetters>) -> FetchedBatch {
    match pending_batch {
        Some(dead_lettering) => dead_lettering.await,
        None => pending().await,
    }
}

/// Logs a fault when it begins or changes, not at every attempt.
fn report_fault(fault: &watch::Sender<Option<String>>, error: String) {
    fault.send_if_modified(|fault| {
        let changed = fault.as_ref() != Some(&error);
        if changed {
            tracing::warn!(error, "no progress, retrying");
            *fault = Some(error);
        }
        changed
    });
}
