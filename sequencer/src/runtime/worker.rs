use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use event_log::{
    Admin, FetchError, Fetched, Fetcher, GroupEvent, GroupMember, LogReader, NextOffset, Released,
};
use schemas::{Partition, topics::Topic};
use tokio::sync::{mpsc as tokio_mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{
    Status,
    effects::{Effect, Effects, Report, Run},
    loading::{self, LoadFault, LoadReport},
    owned::{Leaving, Owned, inbound},
    snapshots::SnapshotPieces,
    status::Totals,
};
use crate::{
    Config,
    shell::{Flow, HaltReason, InboundRecord, PartitionShell, ShellConfig},
};

/// The consumer group, without the deployment's prefix; it only says who works on which partition.
pub const GROUP: &str = "sequencer";
/// How many records are polled before reports and timers get their turn.
const POLL_RECORDS: usize = 4000;
/// How long a poll waits: reports of what is in flight must not wait longer.
const BUSY_POLL: Duration = Duration::from_millis(1);
const IDLE_POLL: Duration = Duration::from_millis(10);
const TICK_EVERY: Duration = Duration::from_millis(50);
const REPORT_EVERY: Duration = Duration::from_secs(1);
const LOAD_RETRY: Duration = Duration::from_millis(500);
/// How long what is in flight may delay giving partitions up.
const LEAVE_DEADLINE: Duration = Duration::from_secs(5);

/// The thread that owns partitions: polls, steps, appends, and follows the group.
pub(crate) struct Worker {
    shell_config: ShellConfig,
    runtime: tokio::runtime::Handle,
    effects: Effects,
    fetcher: Fetcher,
    reader: Arc<LogReader>,
    admin: Arc<Admin>,
    member: GroupMember,
    group: tokio_mpsc::UnboundedReceiver<GroupEvent>,
    reports: mpsc::Receiver<Report>,
    loads: (mpsc::Sender<LoadReport>, mpsc::Receiver<LoadReport>),
    /// Partitions whose start is under way, or due again at the given time.
    starting: BTreeMap<Partition, (Run, Option<Instant>)>,
    owned: BTreeMap<Partition, Owned>,
    leaving: BTreeMap<Partition, Leaving>,
    last_run: Run,
    snapshots: SnapshotPieces,
    began: Instant,
    totals: Totals,
    status: watch::Sender<Status>,
}

impl Worker {
    /// Joins the group; partitions come with [`Self::run`]. Needs a tokio runtime, for admin calls.
    pub(crate) fn new(config: &Config, status: watch::Sender<Status>) -> anyhow::Result<Self> {
        let kafka = &config.kafka;
        let (report_sender, reports) = mpsc::channel();
        let effects = Effects::new(kafka, config.sequencer.linger_ms, report_sender)?;
        let (member, group) = GroupMember::join(kafka, GROUP, Topic::Inbound)?;
        Ok(Self {
            shell_config: config.sequencer.shell(),
            runtime: tokio::runtime::Handle::current(),
            effects,
            fetcher: Fetcher::new(kafka, Topic::Inbound)?,
            reader: Arc::new(LogReader::new(kafka)?),
            admin: Arc::new(Admin::new(kafka)?),
            member,
            group,
            reports,
            loads: mpsc::channel(),
            starting: BTreeMap::new(),
            owned: BTreeMap::new(),
            leaving: BTreeMap::new(),
            last_run: 0,
            snapshots: SnapshotPieces::default(),
            began: Instant::now(),
            totals: Totals::default(),
            status,
        })
    }

    /// Works until `soft` is cancelled, then sees off what is in flight.
    ///
    /// # Errors
    /// What a [`Flow::Halt`] says, or that Kafka cannot be used: the process must end.
    pub(crate) fn run(mut self, soft: &CancellationToken) -> anyhow::Result<()> {
        let (mut ticked, mut reported) = (Instant::now(), Instant::now());
        while !soft.is_cancelled() {
            self.turn()?;
            if ticked.elapsed() >= TICK_EVERY {
                ticked = Instant::now();
                self.tick()?;
            }
            if reported.elapsed() >= REPORT_EVERY {
                reported = Instant::now();
                self.report();
            }
        }
        self.finish()
    }

    fn turn(&mut self) -> anyhow::Result<()> {
        self.follow_group()?;
        self.take_loaded()?;
        self.take_reports()?;
        self.poll()
    }

    /// Reads no more, and waits for what is in flight.
    fn finish(mut self) -> anyhow::Result<()> {
        let all: Vec<Partition> = self.owned.keys().copied().collect();
        for partition in all {
            self.fetcher.stop(partition)?;
        }
        let deadline = Instant::now() + LEAVE_DEADLINE;
        while self
            .owned
            .values()
            .any(|owned| owned.shell.pending_outputs() > 0)
            && Instant::now() < deadline
        {
            self.take_reports()?;
            std::thread::sleep(BUSY_POLL);
        }
        self.report();
        drop(self.group);
        self.runtime.block_on(self.member.leave());
        Ok(())
    }

    fn follow_group(&mut self) -> anyhow::Result<()> {
        while let Ok(event) = self.group.try_recv() {
            match event {
                GroupEvent::Assigned(partitions) => {
                    tracing::info!(count = partitions.len(), "assigned");
                    self.status.send_modify(|status| status.joined = true);
                    self.start(partitions);
                }
                GroupEvent::Revoked {
                    partitions,
                    released,
                } => {
                    tracing::info!(count = partitions.len(), "revoked");
                    self.leave(&partitions, released)?;
                }
                GroupEvent::Failed(why) => anyhow::bail!("consumer group: {why}"),
            }
        }
        Ok(())
    }

    fn start(&mut self, partitions: Vec<Partition>) {
        let mut starts = Vec::with_capacity(partitions.len());
        for partition in partitions {
            self.last_run += 1;
            self.leaving.remove(&partition);
            self.starting.insert(partition, (self.last_run, None));
            starts.push((partition, self.last_run));
        }
        if !starts.is_empty() {
            loading::begin(Arc::clone(&self.reader), starts, self.loads.0.clone());
        }
    }

    fn leave(&mut self, partitions: &[Partition], released: Released) -> anyhow::Result<()> {
        let barrier = Arc::new(released);
        let until = Instant::now() + LEAVE_DEADLINE;
        for &partition in partitions {
            self.starting.remove(&partition);
            if self.owned.contains_key(&partition) {
                self.fetcher.stop(partition)?;
                let barrier = Arc::clone(&barrier);
                self.leaving.insert(partition, Leaving { until, barrier });
            }
        }
        Ok(())
    }

    fn take_loaded(&mut self) -> anyhow::Result<()> {
        while let Ok(LoadReport { starts, outcome }) = self.loads.1.try_recv() {
            let mut loaded = match outcome {
                Ok(loaded) => loaded,
                Err(LoadFault::Refused(refused)) => return Err(refused.into()),
                Err(LoadFault::Kafka(fault)) => {
                    tracing::warn!(%fault, "starting again shortly");
                    let due = Instant::now() + LOAD_RETRY;
                    for (partition, run) in starts {
                        if self.is_starting(partition, run) {
                            self.starting.insert(partition, (run, Some(due)));
                        }
                    }
                    continue;
                }
            };
            for (partition, run) in starts {
                if !self.is_starting(partition, run) {
                    continue;
                }
                let Some(loaded) = loaded.remove(&partition) else {
                    continue;
                };
                let shell =
                    PartitionShell::start(partition, loaded, self.shell_config, self.now_ms());
                self.fetcher
                    .start(partition, NextOffset::new(shell.next_inbound()))?;
                self.starting.remove(&partition);
                self.owned.insert(partition, Owned::new(shell, run));
            }
        }
        Ok(())
    }

    fn is_starting(&self, partition: Partition, run: Run) -> bool {
        self.starting
            .get(&partition)
            .is_some_and(|(current, _)| *current == run)
    }

    fn take_reports(&mut self) -> anyhow::Result<()> {
        while let Ok(report) = self.reports.try_recv() {
            self.take_report(report)?;
        }
        Ok(())
    }

    fn take_report(&mut self, report: Report) -> anyhow::Result<()> {
        let Report {
            partition,
            run,
            ticket,
            effect,
            outcome,
        } = report;
        if let Effect::SnapshotChunk { of } = effect {
            let Some(stored) = self
                .snapshots
                .reported(partition, run, ticket, of, &outcome)
            else {
                return Ok(());
            };
            if let Some(below) = stored.obsolete_below {
                self.delete_snapshots(partition, below);
            }
        }
        // Also where the shell that asked is gone: an event that is lost must not be followed by another.
        if let (Effect::Append, Err(failed)) = (effect, &outcome) {
            return Err(HaltReason::AppendFailed(failed.clone()))
                .with_context(|| format!("partition {partition}"));
        }
        self.drive(partition, Some(run), |shell, now, io| match effect {
            Effect::Append => shell.on_appended(ticket, outcome, now, io),
            Effect::DeadLetter => shell.on_dead_lettered(ticket, outcome.map(|_| ()), now, io),
            Effect::SnapshotChunk { .. } => shell.on_snapshot_stored(ticket, now, io),
        })
    }

    fn delete_snapshots(&self, partition: Partition, below: i64) {
        let admin = Arc::clone(&self.admin);
        self.runtime.spawn(async move {
            if let Err(error) = admin
                .delete_before(Topic::Snapshots, partition, below)
                .await
            {
                tracing::warn!(%error, %partition, "old snapshots stay");
            }
        });
    }

    fn poll(&mut self) -> anyhow::Result<()> {
        let busy = self
            .owned
            .values()
            .any(|owned| owned.shell.pending_outputs() > 0);
        let mut patience = if busy { BUSY_POLL } else { IDLE_POLL };
        let mut batches: BTreeMap<Partition, Vec<InboundRecord>> = BTreeMap::new();
        let mut drained = Vec::new();
        for _ in 0..POLL_RECORDS {
            match self.fetcher.poll(patience) {
                Ok(Some(Fetched::Record(record))) => {
                    batches.entry(record.partition).or_default().push(inbound(record));
                }
                Ok(Some(Fetched::Drained(partition))) => drained.push(partition),
                Ok(None) => break,
                Err(FetchError::Transient(error)) => {
                    tracing::debug!(error, "polling chat.inbound");
                    break;
                }
                Err(error) => return Err(error).context(
                    "chat.inbound cannot be read on; to go on without what is missing, stop every sequencer and run \
                     `tidemark epoch raise`",
                ),
            }
            patience = Duration::ZERO;
        }
        for (partition, records) in batches {
            self.drive(partition, None, |shell, now, io| {
                shell.on_inbound(records, now, io)
            })?;
        }
        for partition in drained {
            self.drive(partition, None, |shell, now, io| shell.on_drained(now, io))?;
        }
        Ok(())
    }

    fn tick(&mut self) -> anyhow::Result<()> {
        let owned: Vec<Partition> = self.owned.keys().copied().collect();
        for partition in owned {
            self.drive(partition, None, |shell, now, io| shell.on_tick(now, io))?;
        }
        self.let_go();
        let now = Instant::now();
        let due: Vec<Partition> = self
            .starting
            .iter()
            .filter(|(_, (_, due))| due.is_some_and(|due| due <= now))
            .map(|(partition, _)| *partition)
            .collect();
        self.start(due);
        Ok(())
    }

    /// Opens the barrier of partitions that have nothing in flight any more.
    fn let_go(&mut self) {
        let done: Vec<Partition> = self
            .leaving
            .iter()
            .filter(|(partition, leaving)| {
                let pending = self
                    .owned
                    .get(partition)
                    .is_some_and(|o| o.shell.pending_outputs() > 0);
                !pending || Instant::now() >= leaving.until
            })
            .map(|(partition, _)| *partition)
            .collect();
        for partition in done {
            self.forget(partition);
            self.leaving.remove(&partition);
        }
    }

    fn forget(&mut self, partition: Partition) {
        if let Some(owned) = self.owned.remove(&partition) {
            self.totals.add(&owned.counted, owned.shell.counts());
        }
    }

    /// Calls a shell (of this run, where one is named) and does what it answers.
    fn drive(
        &mut self,
        partition: Partition,
        run: Option<Run>,
        call: impl FnOnce(&mut PartitionShell, u64, &mut super::effects::ShellIo<'_>) -> Flow,
    ) -> anyhow::Result<()> {
        let now = self.now_ms();
        let Some(owned) = self.owned.get_mut(&partition) else {
            return Ok(());
        };
        if run.is_some_and(|run| run != owned.run) {
            return Ok(());
        }
        let mut io = self.effects.of(partition, owned.run);
        match call(&mut owned.shell, now, &mut io) {
            Flow::Continue if self.leaving.contains_key(&partition) => Ok(()),
            Flow::Continue => Ok(owned.balance(&self.fetcher, partition)?),
            Flow::Restart => {
                tracing::info!(%partition, "another owner has written; starting anew");
                self.fetcher.stop(partition)?;
                self.forget(partition);
                if !self.leaving.contains_key(&partition) {
                    self.start(vec![partition]);
                }
                Ok(())
            }
            Flow::Halt(reason) => {
                Err(anyhow::Error::new(reason).context(format!("partition {partition}")))
            }
        }
    }

    fn report(&mut self) {
        for (partition, owned) in &mut self.owned {
            let before = mem::replace(&mut owned.counted, *owned.shell.counts());
            self.totals.add(&before, &owned.counted);
            if owned.shell.pending_outputs() == 0 {
                self.member
                    .note(*partition, NextOffset::new(owned.shell.next_inbound()));
            }
        }
        self.member.commit_noted();
        let done = self.totals.publish();
        let partitions = self
            .owned
            .iter()
            .map(|(p, owned)| (*p, owned.shell.next_inbound()))
            .collect();
        let starting = self.starting.keys().copied().collect();
        self.status.send_modify(|status| {
            status.done = done;
            status.partitions = partitions;
            status.starting = starting;
        });
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
