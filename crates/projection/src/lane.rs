//! A lane: takes slices into its sink, and sees to it that they are written.

use std::{
    collections::BTreeMap,
    future::pending,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc as sync_mpsc,
    },
    time::Duration,
};

use event_log::{LogReader, Released};
use metrics::Counter;
use schemas::{NextOffset, Partition};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    Coverage, Settings, Sink, SinkError,
    dead_letters::DeadLetters,
    fetch::{self, Feed, Run},
    lag::Done,
    witness::Witness,
};

/// How long a last flush may take before partitions are let go.
const LAST_FLUSH: Duration = Duration::from_secs(5);
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LONGEST_RETRY: Duration = Duration::from_secs(5);

pub(crate) enum LaneCommand {
    Assign(Vec<Partition>),
    /// The barrier opens when every lane has dropped its share of it.
    Revoke(Vec<Partition>, Arc<Released>),
    /// The log of a partition may have gone back below what was read. The lane is to read on from where its store stands, once that
    /// agrees with the log; leaders up to this epoch are known to have been elected by now.
    LookBack {
        partition: Partition,
        leader_epoch: Option<i32>,
    },
}

/// What a lane asks of its sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Errand {
    Resume,
    Flush,
    Verify,
}

/// The lane's ends of what connects it to the others.
pub(crate) struct Connections {
    pub(crate) commands: mpsc::UnboundedReceiver<LaneCommand>,
    pub(crate) feeds: mpsc::UnboundedReceiver<Feed>,
    pub(crate) queued: Arc<AtomicUsize>,
    pub(crate) fetch: sync_mpsc::Sender<fetch::Command>,
    pub(crate) done: watch::Sender<Done>,
    pub(crate) dead_letters: Arc<DeadLetters>,
    pub(crate) log: Arc<LogReader>,
    /// Events that sinks took in.
    pub(crate) events: Counter,
    /// Why this lane stands still, where it does.
    pub(crate) fault: watch::Sender<Option<String>>,
}

type Burying = Pin<Box<dyn Future<Output = Feed> + Send>>;

pub(crate) struct Lane<S> {
    sink: S,
    settings: Settings,
    wires: Connections,
    /// The partitions that are this lane's, with their current run; `None` until they have resumed.
    owned: BTreeMap<Partition, Option<Run>>,
    last_run: Run,
    witness: Witness,
    /// What was absorbed since the last flush, and since when.
    absorbed: BTreeMap<Partition, NextOffset>,
    oldest_absorbed: Instant,
    /// A feed whose poison is on its way to the dead letters. What comes behind it waits; commands and flushes do not.
    burying: Option<Burying>,
    /// When the sink was last asked whether the store stands where it was left.
    verified: Instant,
    /// The part of the store that the sink goes on without.
    left_out: Option<String>,
    retry_at: Instant,
    retry_after: Duration,
}

impl<S: Sink> Lane<S> {
    pub(crate) fn new(sink: S, settings: Settings, wires: Connections) -> Self {
        let now = Instant::now();
        let witness = Witness::new(Arc::clone(&wires.log));
        Self {
            sink,
            settings,
            wires,
            owned: BTreeMap::new(),
            last_run: 0,
            witness,
            absorbed: BTreeMap::new(),
            oldest_absorbed: now,
            burying: None,
            verified: now,
            left_out: None,
            retry_at: now,
            retry_after: FIRST_RETRY,
        }
    }

    /// Runs until `soft` is cancelled; what is held then is written, within a deadline.
    pub(crate) async fn run(mut self, soft: CancellationToken) -> Result<(), String> {
        loop {
            let (errand, due) = self.next_errand();
            let takes_more = self.takes_more() && self.burying.is_none();
            tokio::select! {
                biased;
                () = soft.cancelled() => return self.last_flush().await,
                command = self.wires.commands.recv() => match command {
                    Some(command) => self.obey(command).await?,
                    None => return Ok(()),
                },
                feed = buried(&mut self.burying) => {
                    self.burying = None;
                    self.absorb(feed);
                }
                feed = self.wires.feeds.recv(), if takes_more => match feed {
                    Some(feed) => self.take(feed),
                    None => return Ok(()),
                },
                () = tokio::time::sleep_until(due) => {
                    let outcome = self.perform(errand).await;
                    self.settle(errand, outcome)?;
                }
            }
        }
    }

    fn takes_more(&self) -> bool {
        self.sink.pending() < self.settings.max_pending
    }

    fn resuming(&self) -> bool {
        self.owned.values().any(Option::is_none)
    }

    /// What to ask of the sink next, and when. An overdue look at the store goes before a flush: one that fails for long
    /// must not keep it away.
    fn next_errand(&self) -> (Errand, Instant) {
        let verify_at = self.verified + self.settings.verify_every;
        let (errand, wanted) = if self.resuming() {
            (Errand::Resume, self.retry_at)
        } else if self.absorbed.is_empty() || verify_at <= Instant::now() {
            (Errand::Verify, verify_at)
        } else if self.takes_more() {
            let flush_at = self.oldest_absorbed + self.settings.interval;
            [(Errand::Flush, flush_at), (Errand::Verify, verify_at)]
                .into_iter()
                .min_by_key(|(_, at)| *at)
                .expect("there are two")
        } else {
            (Errand::Flush, self.oldest_absorbed)
        };
        (errand, wanted.max(self.retry_at))
    }

    async fn perform(&mut self, errand: Errand) -> Result<Coverage, SinkError> {
        match errand {
            Errand::Resume => {
                self.resume().await?;
                Ok(self
                    .left_out
                    .clone()
                    .map_or(Coverage::Whole, Coverage::Without))
            }
            Errand::Flush => self.sink.flush().await,
            Errand::Verify => {
                self.verified = Instant::now();
                self.sink.verify().await
            }
        }
    }

    async fn obey(&mut self, command: LaneCommand) -> Result<(), String> {
        match command {
            LaneCommand::Assign(partitions) => {
                self.owned
                    .extend(partitions.into_iter().map(|partition| (partition, None)));
                Ok(())
            }
            LaneCommand::Revoke(partitions, released) => {
                let flushed = self.last_flush().await;
                self.release(&partitions);
                drop(released);
                flushed
            }
            LaneCommand::LookBack {
                partition,
                leader_epoch,
            } => {
                if let Some(run) = self.owned.get_mut(&partition) {
                    *run = None;
                    self.absorbed.remove(&partition);
                    if let Some(epoch) = leader_epoch {
                        self.witness.note_leader(partition, epoch);
                    }
                }
                Ok(())
            }
        }
    }

    fn release(&mut self, partitions: &[Partition]) {
        self.sink.release(partitions);
        for partition in partitions {
            self.owned.remove(partition);
            self.absorbed.remove(partition);
            self.witness.forget(*partition);
            self.command(fetch::Command::Stop {
                partition: *partition,
            });
        }
        self.wires
            .done
            .send_modify(|done| done.retain(|p, _| !partitions.contains(p)));
    }

    /// Asks the store where the partitions that wait for it go on, and starts them there if the log below is what was read.
    async fn resume(&mut self) -> Result<(), SinkError> {
        let waiting: Vec<_> = self
            .owned
            .iter()
            .filter(|(_, run)| run.is_none())
            .map(|(p, _)| *p)
            .collect();
        let positions = self.sink.resume(&waiting).await?;
        let kept_of = |partition: &Partition| {
            let mut kept = self.sink.positions(*partition);
            kept.insert(positions.get(partition).copied().unwrap_or_default());
            (*partition, kept)
        };
        let kept = waiting.iter().map(kept_of).collect();
        self.witness.confirm(kept, &self.settings).await?;
        for partition in waiting {
            let at = positions.get(&partition).copied().unwrap_or_default();
            let leader_epoch = self.witness.leader_epoch(partition);
            self.last_run += 1;
            self.owned.insert(partition, Some(self.last_run));
            self.command(fetch::Command::Start {
                partition,
                at,
                run: self.last_run,
                leader_epoch,
            });
            self.wires.done.send_modify(|done| {
                done.insert(partition, at.next);
            });
        }
        Ok(())
    }

    fn take(&mut self, feed: Feed) {
        self.wires.queued.fetch_sub(feed.bytes, Ordering::Relaxed);
        if feed.poison.is_empty() {
            return self.absorb(feed);
        }
        let (letters, fault) = (
            Arc::clone(&self.wires.dead_letters),
            self.wires.fault.clone(),
        );
        self.burying = Some(Box::pin(async move {
            for poison in &feed.poison {
                let complain = |error| stand_still(&fault, error);
                letters.bury(poison, complain).await;
            }
            feed
        }));
    }

    fn absorb(&mut self, feed: Feed) {
        let partition = feed.slice.partition;
        if self.owned.get(&partition) != Some(&Some(feed.run)) {
            return;
        }
        if self.absorbed.is_empty() {
            self.oldest_absorbed = Instant::now();
        }
        self.absorbed.insert(partition, feed.slice.behind.next);
        self.wires.events.increment(feed.slice.events.len() as u64);
        self.sink.absorb(feed.slice);
    }

    /// A flush with a deadline. What is not written by then is dropped with the partitions: whoever goes on reads it again
    /// from the store's position.
    async fn last_flush(&mut self) -> Result<(), String> {
        if self.absorbed.is_empty() {
            return Ok(());
        }
        let flush = tokio::time::timeout(LAST_FLUSH, self.sink.flush());
        let outcome = flush.await.unwrap_or_else(|_| {
            let late = "a flush before partitions are let go took too long";
            Err(SinkError::Transient(late.to_owned()))
        });
        self.settle(Errand::Flush, outcome)
    }

    /// What follows from what the sink answered, whenever it was asked.
    fn settle(
        &mut self,
        errand: Errand,
        outcome: Result<Coverage, SinkError>,
    ) -> Result<(), String> {
        match outcome {
            Ok(coverage) => {
                if errand == Errand::Flush {
                    self.note_flushed(&coverage);
                }
                self.go_on(coverage);
            }
            Err(SinkError::Transient(error)) => {
                self.retry_at = Instant::now() + self.retry_after;
                self.retry_after = (self.retry_after * 2).min(LONGEST_RETRY);
                stand_still(&self.wires.fault, error);
            }
            Err(SinkError::Moved(why)) => self.start_over(&why),
            Err(SinkError::Fatal(error)) => return Err(error),
        }
        Ok(())
    }

    /// A part of the store that was left out does not have it: then this projection is still behind.
    fn note_flushed(&mut self, coverage: &Coverage) {
        let absorbed = std::mem::take(&mut self.absorbed);
        if *coverage == Coverage::Whole {
            self.wires.done.send_modify(|done| done.extend(absorbed));
        }
    }

    fn go_on(&mut self, coverage: Coverage) {
        self.left_out = match coverage {
            Coverage::Whole => None,
            Coverage::Without(part) => Some(part),
        };
        // While something waits, only a flush says whether it can be written, or only the dead letters.
        if !self.absorbed.is_empty() || self.burying.is_some() {
            return;
        }
        self.retry_after = FIRST_RETRY;
        let fault = self
            .left_out
            .as_ref()
            .map(|part| format!("going on without {part}"));
        self.wires.fault.send_if_modified(|shown| {
            let changed = *shown != fault;
            *shown = fault;
            changed
        });
    }

    fn start_over(&mut self, why: &str) {
        tracing::warn!(why, "reading positions anew");
        self.retry_at = Instant::now() + FIRST_RETRY;
        self.absorbed.clear();
        for run in self.owned.values_mut() {
            *run = None;
        }
    }

    fn command(&self, command: fetch::Command) {
        // The fetch thread's end is noticed by the conductor.
        let _ = self.wires.fetch.send(command);
    }
}

/// The feed, once its poison is buried.
async fn buried(burying: &mut Option<Burying>) -> Feed {
    match burying {
        Some(burying) => burying.await,
        None => pending().await,
    }
}

/// Logs a fault when it begins or changes, not at every attempt.
fn stand_still(fault: &watch::Sender<Option<String>>, error: String) {
    fault.send_if_modified(|fault| {
        let changed = fault.as_ref() != Some(&error);
        if changed {
            tracing::warn!(error, "standing still, trying again");
            *fault = Some(error);
        }
        changed
    });
}
