use std::{
    collections::BTreeMap,
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use event_log::{Fetcher, GroupEvent, Released};
use schemas::{NextOffset, Partition, topics::Topic};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    Status,
    effects::{Effect, Effects, Report, Run, ShellIo},
    event_writer::Appended,
    group::Group,
    inbound::{Stepped, step_at_hand},
    phase::{Owned, Phase, Then},
    publisher::Publisher,
    snapshots::Snapshots,
    starts::{LoadFault, LoadReport, Starts},
};
use crate::{
    Config,
    shell::{HaltReason, Loaded, NextAction, PartitionShell, ShellConfig},
};

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
    began: Instant,
    /// Since then, at the beginning of this turn: a turn is short, and asking for every record would cost more than the timers need.
    now_ms: u64,
    group: Group,
    starts: Starts,
    partitions: BTreeMap<Partition, Phase>,
    fetcher: Fetcher,
    effects: Effects,
    appended: mpsc::Receiver<Appended>,
    /// Scratch of [`Self::take_appended`]; empty between its calls.
    appended_by_now: Vec<Appended>,
    reports: mpsc::Receiver<Report>,
    snapshots: Snapshots,
    publisher: Publisher,
}

impl Worker {
    /// Joins the group; partitions come with [`Self::run`]. Needs a tokio runtime, for admin calls.
    pub(crate) fn new(config: &Config, status: watch::Sender<Status>) -> anyhow::Result<Self> {
        let kafka = &config.kafka;
        let runtime = tokio::runtime::Handle::current();
        let (appended_sender, appended) = mpsc::channel();
        let (report_sender, reports) = mpsc::channel();
        Ok(Self {
            shell_config: config.sequencer.shell(),
            began: Instant::now(),
            now_ms: 0,
            group: Group::join(kafka)?,
            starts: Starts::new(kafka)?,
            partitions: BTreeMap::new(),
            fetcher: Fetcher::new(kafka, Topic::Inbound)?,
            effects: Effects::new(
                kafka,
                config.sequencer.linger_ms,
                appended_sender,
                report_sender,
            )?,
            appended,
            appended_by_now: Vec::new(),
            reports,
            snapshots: Snapshots::new(kafka, runtime.clone())?,
            publisher: Publisher::new(status),
            runtime,
        })
    }

    /// Works until `soft` is cancelled, then sees off what is in flight. Leaves the group also where it fails, so that
    /// others need not wait for the session to time out.
    ///
    /// # Errors
    /// What a [`NextAction::Halt`] says, or that Kafka cannot be used: the process must end.
    pub(crate) fn run(mut self, soft: &CancellationToken) -> anyhow::Result<()> {
        let ended = self.work(soft).and_then(|()| self.see_off());
        let Self {
            effects,
            partitions,
            group,
            runtime,
            ..
        } = self;
        // Nothing more is produced once others may have the partitions, and a last revoke finds no barrier closed.
        drop(effects);
        drop(partitions);
        group.leave(&runtime);
        ended
    }

    fn work(&mut self, soft: &CancellationToken) -> anyhow::Result<()> {
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
        Ok(())
    }

    fn turn(&mut self) -> anyhow::Result<()> {
        self.now_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.follow_group()?;
        self.take_loaded()?;
        self.take_reports()?;
        self.poll()?;
        self.publisher.follow(&self.partitions);
        Ok(())
    }

    /// Reads no more, and waits for what is in flight.
    fn see_off(&mut self) -> anyhow::Result<()> {
        for partition in self.partitions.keys() {
            self.fetcher.stop(*partition)?;
        }
        let deadline = Instant::now() + LEAVE_DEADLINE;
        while (self.has_pending_outputs() || self.effects.has_snapshots_under_way())
            && Instant::now() < deadline
        {
            self.take_reports()?;
            std::thread::sleep(BUSY_POLL);
        }
        self.report();
        Ok(())
    }

    fn has_pending_outputs(&self) -> bool {
        self.partitions
            .values()
            .filter_map(Phase::owned)
            .any(|owned| owned.shell.pending_outputs() > 0)
    }

    fn follow_group(&mut self) -> anyhow::Result<()> {
        while let Some(change) = self.group.next_change()? {
            match change {
                GroupEvent::Assigned(partitions) => {
                    tracing::info!(count = partitions.len(), "assigned");
                    self.publisher.joined();
                    self.start(&partitions);
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

    /// Moves a partition on; `None` for one that is no longer this process's.
    fn set(&mut self, partition: Partition, phase: Option<Phase>) {
        let before = match phase {
            Some(phase) => self.partitions.insert(partition, phase),
            None => self.partitions.remove(&partition),
        };
        if let Some(gone) = before.and_then(Phase::into_owned) {
            self.publisher.retired(&gone);
            self.effects.snapshot_done(partition, gone.run);
        }
        self.publisher.phase_changed();
    }

    fn start(&mut self, partitions: &[Partition]) {
        for (partition, run) in self.starts.begin(partitions) {
            let retry_at = None;
            self.set(partition, Some(Phase::Starting { run, retry_at }));
        }
    }

    fn leave(&mut self, partitions: &[Partition], released: Released) -> anyhow::Result<()> {
        let released = Arc::new(released);
        for &partition in partitions {
            self.stop(partition, || Then::Release(Arc::clone(&released)))?;
        }
        Ok(())
    }

    /// Reads no more of a partition; what is in flight is waited for before `then`.
    fn stop(&mut self, partition: Partition, then: impl FnOnce() -> Then) -> anyhow::Result<()> {
        self.fetcher.stop(partition)?;
        let owned = self.partitions.remove(&partition);
        if let Some(owned) = owned.and_then(Phase::into_owned) {
            let leaving = Phase::Leaving {
                owned,
                until: Instant::now() + LEAVE_DEADLINE,
                then: then(),
            };
            self.partitions.insert(partition, leaving);
        }
        self.publisher.phase_changed();
        Ok(())
    }

    /// Is done with a partition's shell.
    fn let_go(&mut self, partition: Partition) {
        let release = matches!(
            self.partitions.get(&partition),
            Some(Phase::Leaving {
                then: Then::Release(_),
                ..
            })
        );
        if release {
            self.set(partition, None);
        } else {
            self.start(&[partition]);
        }
    }

    fn take_loaded(&mut self) -> anyhow::Result<()> {
        while let Some(LoadReport { starts, outcome }) = self.starts.next_ended() {
            let current = |(partition, run): &(Partition, Run)| {
                let phase = self.partitions.get(partition);
                phase.is_some_and(|phase| phase.is_start(*run))
            };
            let starts: Vec<(Partition, Run)> = starts.into_iter().filter(current).collect();
            match outcome {
                Ok(loaded) => self.begin(&starts, loaded)?,
                Err(LoadFault::Refused(refused)) => return Err(refused.into()),
                Err(LoadFault::Kafka(fault)) => {
                    tracing::warn!(%fault, "starting again shortly");
                    let retry_at = Some(Instant::now() + LOAD_RETRY);
                    for (partition, run) in starts {
                        self.set(partition, Some(Phase::Starting { run, retry_at }));
                    }
                }
            }
        }
        Ok(())
    }

    fn begin(
        &mut self,
        starts: &[(Partition, Run)],
        mut loaded: BTreeMap<Partition, Loaded>,
    ) -> anyhow::Result<()> {
        for &(partition, run) in starts {
            let loaded = loaded
                .remove(&partition)
                .expect("a load has every partition that it was begun for");
            let now = self.now_ms;
            let shell = PartitionShell::start(partition, loaded, self.shell_config, now);
            self.fetcher
                .start(partition, NextOffset::new(shell.next_inbound()))?;
            self.set(partition, Some(Phase::Working(Owned::new(shell, run))));
        }
        Ok(())
    }

    fn take_reports(&mut self) -> anyhow::Result<()> {
        self.take_appended()?;
        while let Ok(report) = self.reports.try_recv() {
            self.take_report(report)?;
        }
        Ok(())
    }

    fn take_appended(&mut self) -> anyhow::Result<()> {
        let mut appended = std::mem::take(&mut self.appended_by_now);
        appended.extend(self.appended.try_iter());
        let taken = appended
            .chunk_by(|a, b| (a.partition, a.run) == (b.partition, b.run))
            .try_for_each(|of_one_shell| self.take_appended_of_one(of_one_shell));
        appended.clear();
        self.appended_by_now = appended;
        taken
    }

    fn take_appended_of_one(&mut self, of_one_shell: &[Appended]) -> anyhow::Result<()> {
        let Some(&Appended { partition, run, .. }) = of_one_shell.first() else {
            return Ok(());
        };
        // Also where the shell that asked is gone: an event that is lost must not be followed by another.
        let failed = of_one_shell
            .iter()
            .find_map(|one| one.outcome.as_ref().err());
        if let Some(failed) = failed {
            return Err(HaltReason::AppendFailed(failed.clone()))
                .with_context(|| format!("partition {partition}"));
        }
        let reports = of_one_shell.iter();
        let reports = reports.map(|one| (one.ticket, one.outcome.clone()));
        self.drive(partition, Some(run), |shell, now, io| {
            shell.on_appended(reports, now, io)
        })
    }

    fn take_report(&mut self, report: Report) -> anyhow::Result<()> {
        let Report {
            partition,
            run,
            effect,
            outcome,
        } = report;
        match effect {
            Effect::DeadLetter(ticket) => self.drive(partition, Some(run), |shell, now, io| {
                shell.on_dead_lettered(ticket, outcome.map(|_| ()), now, io)
            }),
            Effect::SnapshotChunk { ticket, of } => {
                if !self
                    .snapshots
                    .reported(partition, run, ticket, of, &outcome)
                {
                    return Ok(());
                }
                self.effects.snapshot_done(partition, run);
                self.drive(partition, Some(run), |shell, now, io| {
                    shell.on_snapshot_stored(ticket, now, io)
                })
            }
        }
    }

    fn poll(&mut self) -> anyhow::Result<()> {
        let patience = if self.has_pending_outputs() {
            BUSY_POLL
        } else {
            IDLE_POLL
        };
        let Stepped {
            taken,
            drained,
            resumed,
        } = step_at_hand(
            &mut self.fetcher,
            &mut self.partitions,
            patience,
            self.now_ms,
        )?;
        for partition in taken {
            self.drive(partition, None, |shell, now, io| shell.on_taken(now, io))?;
        }
        for partition in drained {
            self.drive(partition, None, |shell, now, io| shell.on_drained(now, io))?;
        }
        for partition in resumed {
            self.start_anew(partition)?;
        }
        Ok(())
    }

    /// A start compares the log with what was sequenced from it.
    fn start_anew(&mut self, partition: Partition) -> anyhow::Result<()> {
        if let Some(Phase::Working(_)) = self.partitions.get(&partition) {
            tracing::warn!(%partition, "its position was off chat.inbound for a while; starting anew");
            self.stop(partition, || Then::StartAnew)?;
        }
        Ok(())
    }

    fn tick(&mut self) -> anyhow::Result<()> {
        for partition in self.those(|phase| phase.owned().is_some()) {
            self.drive(partition, None, |shell, now, io| shell.on_tick(now, io))?;
        }
        let now = Instant::now();
        for partition in self.those(|phase| phase.is_done_leaving(now)) {
            self.let_go(partition);
        }
        let due = self.those(|phase| phase.is_retry_due(now));
        self.start(&due);
        Ok(())
    }

    fn those(&self, which: impl Fn(&Phase) -> bool) -> Vec<Partition> {
        self.partitions
            .iter()
            .filter(|(_, phase)| which(phase))
            .map(|(partition, _)| *partition)
            .collect()
    }

    /// Calls a shell (of this run, where one is named) and does what it answers.
    fn drive(
        &mut self,
        partition: Partition,
        run: Option<Run>,
        call: impl FnOnce(&mut PartitionShell, u64, &mut ShellIo<'_>) -> NextAction,
    ) -> anyhow::Result<()> {
        let now = self.now_ms;
        let Some(phase) = self.partitions.get_mut(&partition) else {
            return Ok(());
        };
        let is_working = matches!(phase, Phase::Working(_));
        let Some(owned) = phase.owned_mut() else {
            return Ok(());
        };
        if run.is_some_and(|run| run != owned.run) {
            return Ok(());
        }
        let mut io = self.effects.of(partition, owned.run);
        match call(&mut owned.shell, now, &mut io) {
            NextAction::Continue if is_working => Ok(owned.balance(&mut self.fetcher, partition)?),
            NextAction::Continue => Ok(()),
            NextAction::Restart => {
                tracing::info!(%partition, "another owner has written; starting anew");
                self.fetcher.stop(partition)?;
                self.let_go(partition);
                Ok(())
            }
            NextAction::Halt(reason) => {
                Err(anyhow::Error::new(reason).context(format!("partition {partition}")))
            }
        }
    }

    fn report(&mut self) {
        self.publisher.report(&mut self.partitions);
        let settled = self.partitions.iter().filter_map(|(partition, phase)| {
            let shell = &phase.owned()?.shell;
            Some((*partition, shell.settled_inbound()))
        });
        self.group.commit(settled);
    }
}
