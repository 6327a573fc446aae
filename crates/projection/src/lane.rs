//! A lane: takes slices into its sink, and sees to it that they are written.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc as sync_mpsc,
    },
    time::Duration,
};

use event_log::{NextOffset, Released};
use schemas::Partition;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    Settings, Sink, SinkError,
    dead_letters::DeadLetters,
    fetch::{self, Feed, Run},
    lag::Done,
};

/// How long a last flush may take before partitions are let go.
const LAST_FLUSH: Duration = Duration::from_secs(5);
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LONGEST_RETRY: Duration = Duration::from_secs(5);

pub(crate) enum LaneCommand {
    Assign(Vec<Partition>),
    /// The barrier opens when every lane has dropped its share of it.
    Revoke(Vec<Partition>, Arc<Released>),
}

/// The lane's ends of what connects it to the others.
pub(crate) struct Connections {
    pub(crate) commands: mpsc::UnboundedReceiver<LaneCommand>,
    pub(crate) feeds: mpsc::UnboundedReceiver<Feed>,
    pub(crate) queued: Arc<AtomicUsize>,
    pub(crate) fetch: sync_mpsc::Sender<fetch::Command>,
    pub(crate) done: watch::Sender<Done>,
    pub(crate) dead_letters: Arc<DeadLetters>,
    /// Why this lane stands still, where it does.
    pub(crate) fault: watch::Sender<Option<String>>,
}

pub(crate) struct Lane<S> {
    sink: S,
    settings: Settings,
    wires: Connections,
    /// The partitions that are this lane's, with their current run; `None` until they have resumed.
    owned: BTreeMap<Partition, Option<Run>>,
    last_run: Run,
    /// What was absorbed since the last flush, and since when.
    absorbed: BTreeMap<Partition, NextOffset>,
    oldest_absorbed: Instant,
    verified: Instant,
    retry_at: Instant,
    retry_after: Duration,
}

impl<S: Sink> Lane<S> {
    pub(crate) fn new(sink: S, settings: Settings, wires: Connections) -> Self {
        let now = Instant::now();
        Self {
            sink,
            settings,
            wires,
            owned: BTreeMap::new(),
            last_run: 0,
            absorbed: BTreeMap::new(),
            oldest_absorbed: now,
            verified: now,
            retry_at: now,
            retry_after: FIRST_RETRY,
        }
    }

    /// Runs until `soft` is cancelled; what is held then is written, within a deadline.
    pub(crate) async fn run(mut self, soft: CancellationToken) -> Result<(), String> {
        loop {
            let due = self.due_at();
            tokio::select! {
                biased;
                () = soft.cancelled() => {
                    self.last_flush().await;
                    return Ok(());
                }
                command = self.wires.commands.recv() => match command {
                    Some(command) => self.obey(command).await,
                    None => return Ok(()),
                },
                feed = self.wires.feeds.recv(), if self.takes_more() => match feed {
                    Some(feed) => self.take(feed, &soft).await,
                    None => return Ok(()),
                },
                () = tokio::time::sleep_until(due) => self.act().await?,
            }
        }
    }

    fn takes_more(&self) -> bool {
        self.sink.pending() < self.settings.max_pending
    }

    fn resuming(&self) -> bool {
        self.owned.values().any(Option::is_none)
    }

    /// When [`Self::act`] has something to do next.
    fn due_at(&self) -> Instant {
        let wanted = if self.resuming() {
            self.retry_at
        } else if self.absorbed.is_empty() {
            self.verified + self.settings.verify_every
        } else if self.takes_more() {
            self.oldest_absorbed + self.settings.interval
        } else {
            self.oldest_absorbed
        };
        wanted.max(self.retry_at)
    }

    async fn act(&mut self) -> Result<(), String> {
        let outcome = if self.resuming() {
            self.resume().await
        } else if self.absorbed.is_empty() {
            self.verified = Instant::now();
            self.sink.verify().await
        } else {
            self.flush().await
        };
        self.judge(outcome)
    }

    async fn obey(&mut self, command: LaneCommand) {
        match command {
            LaneCommand::Assign(partitions) => {
                self.owned
                    .extend(partitions.into_iter().map(|partition| (partition, None)));
            }
            LaneCommand::Revoke(partitions, released) => {
                self.last_flush().await;
                self.release(&partitions);
                drop(released);
            }
        }
    }

    fn release(&mut self, partitions: &[Partition]) {
        self.sink.release(partitions);
        for partition in partitions {
            self.owned.remove(partition);
            self.absorbed.remove(partition);
            self.command(fetch::Command::Stop {
                partition: *partition,
            });
        }
        self.wires
            .done
            .send_modify(|done| done.retain(|p, _| !partitions.contains(p)));
    }

    /// Asks the store where the partitions that wait for it go on, and starts them there.
    async fn resume(&mut self) -> Result<(), SinkError> {
        let waiting: Vec<_> = self
            .owned
            .iter()
            .filter(|(_, run)| run.is_none())
            .map(|(p, _)| *p)
            .collect();
        let positions = self.sink.resume(&waiting).await?;
        for partition in waiting {
            let at = positions.get(&partition).copied().unwrap_or_default();
            self.last_run += 1;
            self.owned.insert(partition, Some(self.last_run));
            self.command(fetch::Command::Start {
                partition,
                at,
                run: self.last_run,
            });
            self.wires.done.send_modify(|done| {
                done.insert(partition, at.next);
            });
        }
        Ok(())
    }

    async fn take(&mut self, feed: Feed, soft: &CancellationToken) {
        self.wires.queued.fetch_sub(feed.bytes, Ordering::Relaxed);
        let partition = feed.slice.partition;
        if self.owned.get(&partition) != Some(&Some(feed.run)) {
            return;
        }
        for poison in &feed.poison {
            tokio::select! {
                () = soft.cancelled() => return,
                () = self.wires.dead_letters.bury(poison) => {}
            }
        }
        if self.absorbed.is_empty() {
            self.oldest_absorbed = Instant::now();
        }
        self.absorbed.insert(partition, feed.slice.behind.next);
        self.sink.absorb(feed.slice);
    }

    async fn flush(&mut self) -> Result<(), SinkError> {
        self.sink.flush().await?;
        self.verified = Instant::now();
        let absorbed = std::mem::take(&mut self.absorbed);
        self.wires.done.send_modify(|done| done.extend(absorbed));
        Ok(())
    }

    /// What cannot be written in time is dropped: whoever goes on reads it again from the store's position.
    async fn last_flush(&mut self) {
        if self.absorbed.is_empty() {
            return;
        }
        match tokio::time::timeout(LAST_FLUSH, self.flush()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::info!(%error, "the last flush failed"),
            Err(_) => tracing::info!("the last flush took too long"),
        }
    }

    fn judge(&mut self, outcome: Result<(), SinkError>) -> Result<(), String> {
        match outcome {
            Ok(()) => {
                self.retry_after = FIRST_RETRY;
                self.wires
                    .fault
                    .send_if_modified(|fault| fault.take().is_some());
                Ok(())
            }
            Err(SinkError::Transient(error)) => {
                self.retry_at = Instant::now() + self.retry_after;
                self.retry_after = (self.retry_after * 2).min(LONGEST_RETRY);
                self.stand_still(error);
                Ok(())
            }
            Err(SinkError::Moved(why)) => {
                tracing::warn!(why, "reading positions anew");
                self.retry_at = Instant::now() + FIRST_RETRY;
                self.absorbed.clear();
                for run in self.owned.values_mut() {
                    *run = None;
                }
                Ok(())
            }
            Err(SinkError::Fatal(error)) => Err(error),
        }
    }

    /// Logs a fault when it begins or changes, not at every attempt.
    fn stand_still(&self, error: String) {
        self.wires.fault.send_if_modified(|fault| {
            let changed = fault.as_ref() != Some(&error);
            if changed {
                tracing::warn!(error, "standing still, trying again");
                *fault = Some(error);
            }
            changed
        });
    }

    fn command(&self, command: fetch::Command) {
        // The fetch thread's end is noticed by the conductor.
        let _ = self.wires.fetch.send(command);
    }
}
