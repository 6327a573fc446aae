//! The fetch thread: polls, applies the readers' rule, and sends batches to the workers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc as sync_mpsc,
    },
    time::{Duration, Instant},
};

use event_log::{FetchError, Fetched, Fetcher, RecordRef};
use schemas::{NextOffset, Partition, PartitionMap, event::UnknownRules};
use tokio::sync::mpsc;

use crate::{
    Settings,
    brokers::Brokers,
    channels::{FetchCommand, FetchedBatch, WorkerCommand},
    open_batch::OpenBatch,
    truncation_check::{Found, Truncation, describe},
};

/// How long a poll waits while no batch is open. Commands wait no longer than this.
const IDLE_POLL: Duration = Duration::from_millis(50);

/// How long a poll waits while a worker is paused: the pause can end only between two polls.
const PAUSED_POLL: Duration = Duration::from_millis(10);

/// How many records are polled between two checks for commands and pauses.
const POLL_RECORDS: usize = 256;

/// The fetch thread's end of a worker's channels.
pub(crate) struct WorkerQueue {
    pub(crate) sender: mpsc::UnboundedSender<FetchedBatch>,
    pub(crate) commands: mpsc::UnboundedSender<WorkerCommand>,
    /// Bytes that were read and that the worker has not taken yet, including open batches; bounded by pauses.
    pub(crate) queued: Arc<AtomicUsize>,
    pub(crate) paused: bool,
}

pub(crate) struct FetchLoop<F> {
    pub(crate) fetcher: Fetcher,
    pub(crate) commands: sync_mpsc::Receiver<FetchCommand>,
    pub(crate) workers: Vec<WorkerQueue>,
    pub(crate) worker_of: F,
    pub(crate) settings: Settings,
    pub(crate) brokers: Brokers,
    /// Whether the last poll failed.
    last_poll_failed: bool,
    open: PartitionMap<OpenBatch>,
}

/// What to do after a poll.
enum Next {
    Continue,
    /// This program does not understand the record at this offset; it is the first such record.
    Halt {
        partition: Partition,
        offset: i64,
        unknown: UnknownRules,
    },
    /// The batch of this partition is complete.
    SendBatch(Partition),
    /// The log of this partition may have been truncated.
    CheckTruncation {
        partition: Partition,
        leader_epoch: Option<i32>,
    },
}

/// Takes a record into the open batch of its partition.
fn take_record(
    open: &mut PartitionMap<OpenBatch>,
    workers: &[WorkerQueue],
    record: &RecordRef<'_>,
) -> Next {
    let partition = record.partition;
    let Some(open) = open.get_mut(partition) else {
        return Next::Continue;
    };
    if open.has_newer_leader(record) {
        let leader_epoch = Some(record.leader_epoch);
        return Next::CheckTruncation {
            partition,
            leader_epoch,
        };
    }
    let worker = &workers[open.worker];
    let grown = match open.take(record) {
        Ok(grown) => grown,
        Err(unknown) => {
            let offset = record.offset;
            return Next::Halt {
                partition,
                offset,
                unknown,
            };
        }
    };
    worker.queued.fetch_add(grown, Ordering::Relaxed);
    if open.is_full() || worker.paused {
        Next::SendBatch(partition)
    } else {
        Next::Continue
    }
}

impl<F: Fn(Partition) -> usize> FetchLoop<F> {
    pub(crate) fn new(
        fetcher: Fetcher,
        commands: sync_mpsc::Receiver<FetchCommand>,
        workers: Vec<WorkerQueue>,
        worker_of: F,
        settings: Settings,
        brokers: Brokers,
    ) -> Self {
        Self {
            fetcher,
            commands,
            workers,
            worker_of,
            settings,
            brokers,
            last_poll_failed: false,
            open: PartitionMap::new(),
        }
    }

    /// Runs until every sender of commands is gone.
    pub(crate) fn run(mut self) -> Result<(), FetchError> {
        loop {
            loop {
                match self.commands.try_recv() {
                    Ok(command) => self.handle_command(command),
                    Err(sync_mpsc::TryRecvError::Empty) => break,
                    Err(sync_mpsc::TryRecvError::Disconnected) => return Ok(()),
                }
            }
            self.poll_some()?;
            self.apply_backpressure();
        }
    }

    fn handle_command(&mut self, command: FetchCommand) {
        match command {
            FetchCommand::Start {
                partition,
                at,
                generation,
                leader_epoch,
            } => {
                let worker = (self.worker_of)(partition);
                self.fetcher.start(partition, at.next);
                self.fetcher
                    .set_paused(partition, self.workers[worker].paused);
                self.discard(partition);
                let open = OpenBatch::new(worker, generation, at, leader_epoch);
                self.open.insert(partition, open);
            }
            FetchCommand::Stop { partition } => self.stop(partition),
        }
    }

    fn stop(&mut self, partition: Partition) {
        self.fetcher.stop(partition);
        self.discard(partition);
    }

    /// Stops reading a partition until its worker has checked the log for truncation.
    fn request_truncation_check(&mut self, partition: Partition, leader_epoch: Option<i32>) {
        self.stop(partition);
        self.command(
            partition,
            WorkerCommand::CheckTruncation {
                partition,
                leader_epoch,
            },
        );
    }

    /// Stops reading a partition that cannot be read on, and sends what was read.
    fn halt(&mut self, partition: Partition, before: Option<NextOffset>, why: String) {
        self.send_batch(partition);
        self.stop(partition);
        self.command(
            partition,
            WorkerCommand::Halt {
                partition,
                before,
                why,
            },
        );
    }

    fn command(&self, partition: Partition, command: WorkerCommand) {
        let worker = (self.worker_of)(partition);
        // If the worker is gone, the whole projection ends.
        let _ = self.workers[worker].commands.send(command);
    }

    /// Drops the open batch of a partition.
    fn discard(&mut self, partition: Partition) {
        if let Some(open) = self.open.remove(partition) {
            let queued = &self.workers[open.worker].queued;
            queued.fetch_sub(open.bytes(), Ordering::Relaxed);
        }
    }

    /// Polls until no record comes at once, or for [`POLL_RECORDS`] records.
    fn poll_some(&mut self) -> Result<(), FetchError> {
        let has_open_batches = self.open.values().any(OpenBatch::has_moved);
        let mut timeout = if has_open_batches {
            Duration::ZERO
        } else if self.workers.iter().any(|worker| worker.paused) {
            PAUSED_POLL
        } else {
            IDLE_POLL
        };
        for _ in 0..POLL_RECORDS {
            if !self.poll_once(timeout)? {
                break;
            }
            timeout = Duration::ZERO;
        }
        Ok(())
    }

    /// Returns whether the poll brought anything.
    fn poll_once(&mut self, timeout: Duration) -> Result<bool, FetchError> {
        let Self {
            fetcher,
            workers,
            open,
            ..
        } = self;
        let polled = fetcher.poll(timeout, |fetched| match fetched {
            Fetched::Record(record) => take_record(open, workers, &record),
            Fetched::EndOfPartition(partition) => Next::SendBatch(partition),
            Fetched::BackInRange(partition) => Next::CheckTruncation {
                partition,
                leader_epoch: open.get(partition).and_then(OpenBatch::leader_epoch),
            },
        });
        let next = match polled {
            Ok(next) => next,
            Err(FetchError::Transient(error)) => {
                self.last_poll_failed = true;
                self.brokers.failed(format!("reading chat.events: {error}"));
                return Ok(false);
            }
            Err(FetchError::OutOfRange {
                partition,
                position,
                start,
                end,
                ..
            }) => {
                let next = position.get();
                let (before, found) = if next < start {
                    (Some(position), Found::Start(start))
                } else {
                    (None, Found::End(end))
                };
                let why = describe(partition, &[Truncation { next, found }], &self.settings);
                self.halt(partition, before, why);
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        // A poll without a record does not show that the brokers answer.
        if next.is_some() && std::mem::take(&mut self.last_poll_failed) {
            self.brokers.answered(Instant::now());
        }
        let Some(next) = next else {
            self.send_open_batches();
            return Ok(false);
        };
        self.handle_next(next);
        Ok(true)
    }

    fn handle_next(&mut self, next: Next) {
        match next {
            Next::Continue => {}
            Next::Halt {
                partition,
                offset,
                unknown,
            } => {
                let why = format!("chat.events at offset {offset}: {unknown}");
                self.halt(partition, Some(NextOffset::new(offset)), why);
            }
            Next::SendBatch(partition) => self.send_batch(partition),
            Next::CheckTruncation {
                partition,
                leader_epoch,
            } => self.request_truncation_check(partition, leader_epoch),
        }
    }

    fn send_open_batches(&mut self) {
        let moved: Vec<Partition> = self
            .open
            .iter()
            .filter(|(_, open)| open.has_moved())
            .map(|(partition, _)| partition)
            .collect();
        for partition in moved {
            self.send_batch(partition);
        }
    }

    fn send_batch(&mut self, partition: Partition) {
        let open = self.open.get_mut(partition);
        if let Some(open) = open.filter(|open| open.has_moved()) {
            let batch = open.take_batch(partition);
            // If the worker is gone, the whole projection ends.
            let _ = self.workers[open.worker].sender.send(batch);
        }
    }

    /// Pauses the partitions of workers with too many queued bytes, and resumes them at half of the limit.
    fn apply_backpressure(&mut self) {
        for number in 0..self.workers.len() {
            let worker = &mut self.workers[number];
            let queued = worker.queued.load(Ordering::Relaxed);
            let pause = if worker.paused {
                queued > self.settings.max_queued_bytes / 2
            } else {
                queued > self.settings.max_queued_bytes
            };
            if pause != worker.paused {
                worker.paused = pause;
                self.set_paused(number, pause);
            }
        }
    }

    /// Pauses or resumes a worker's partitions. A pause sends their open batches: open batches count as queued, and no further record would complete
    /// them.
    fn set_paused(&mut self, worker: usize, pause: bool) {
        let of_worker = |(partition, open): (Partition, &OpenBatch)| {
            (open.worker == worker).then_some(partition)
        };
        let partitions: Vec<Partition> = self.open.iter().filter_map(of_worker).collect();
        for partition in partitions {
            self.fetcher.set_paused(partition, pause);
            if pause {
                self.send_batch(partition);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use event_log::{AssignmentGeneration, KafkaConfig, Record};
    use schemas::{LogPosition, topics::Topic};

    use super::*;
    use crate::{
        open_batch::tests::{record, value},
        settings::tests::settings,
    };

    type OneWorker = FetchLoop<fn(Partition) -> usize>;

    /// A fetch loop with one worker; no broker listens at the configured address.
    fn fetch_loop() -> (OneWorker, mpsc::UnboundedReceiver<FetchedBatch>) {
        let kafka = KafkaConfig {
            brokers: "127.0.0.1:1".to_owned(),
            ..KafkaConfig::default()
        };
        let fetcher = Fetcher::new(&kafka, Topic::Events).unwrap();
        let (_, commands) = sync_mpsc::channel();
        let (sender, batches) = mpsc::unbounded_channel();
        let (worker_commands, _) = mpsc::unbounded_channel();
        let worker = WorkerQueue {
            sender,
            commands: worker_commands,
            queued: Arc::default(),
            paused: false,
        };
        let worker_of: fn(Partition) -> usize = |_| 0;
        let brokers = Brokers::default();
        let mut fetch = FetchLoop::new(
            fetcher,
            commands,
            vec![worker],
            worker_of,
            settings(),
            brokers,
        );
        for partition in Partition::all() {
            let at = LogPosition::default();
            fetch.handle_command(FetchCommand::Start {
                partition,
                at,
                generation: AssignmentGeneration::default(),
                leader_epoch: None,
            });
        }
        (fetch, batches)
    }

    fn take(fetch: &mut OneWorker, record: &Record) {
        let next = take_record(&mut fetch.open, &fetch.workers, &record.by_ref());
        fetch.handle_next(next);
    }

    fn queued(fetch: &OneWorker) -> usize {
        fetch.workers[0].queued.load(Ordering::Relaxed)
    }

    #[test]
    fn open_slices_of_all_partitions_count_as_queued() {
        let (mut fetch, mut batches) = fetch_loop();
        // The records are malformed, so that their partition does not matter.
        let mut taken = 0;
        'filling: for offset in 0..100 {
            for partition in 0..64 {
                let record = value(partition, offset, vec![0xff; 16 << 10]);
                take(&mut fetch, &record);
                fetch.apply_backpressure();
                taken += 16 << 10;
                if fetch.workers[0].paused {
                    break 'filling;
                }
            }
        }
        assert!(
            taken <= settings().max_queued_bytes + (32 << 10),
            "{taken} bytes before the pause"
        );
        // All records were sent to the worker, which ends the pause by taking them.
        let mut sent = 0;
        while let Ok(batch) = batches.try_recv() {
            sent += batch.bytes;
        }
        assert_eq!(sent, queued(&fetch));
        fetch.workers[0].queued.fetch_sub(sent, Ordering::Relaxed);
        fetch.apply_backpressure();
        assert!(!fetch.workers[0].paused);
    }

    #[test]
    fn batches_of_a_stopped_partition_are_no_longer_queued() {
        let (mut fetch, _feeds) = fetch_loop();
        let partition = 3_i64.try_into().unwrap();
        take(&mut fetch, &record(3, 0, 100));
        assert!(queued(&fetch) > 100);
        fetch.handle_command(FetchCommand::Stop { partition });
        assert_eq!(queued(&fetch), 0);
    }
}
