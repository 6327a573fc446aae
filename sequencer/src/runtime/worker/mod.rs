mod lifecycle;

use std::{
    sync::mpsc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use event_log::{AssignmentGeneration, Fetcher, GroupEvent, HaltedPartitions};
use schemas::{NextOffset, Partition, PartitionMap, topics::Topic};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    Status,
    effects::{Effects, ShellIo},
    event_writer::Appended,
    group::Group,
    inbound::{Polled, poll_inbound},
    phase::Phase,
    producers::{Effect, Report},
    publisher::Publisher,
    snapshots::Snapshots,
    starts::{LoadReport, Starts},
};
use crate::{
    Config,
    shell::{HaltReason, NextAction, PartitionShell, ShellConfig},
};

/// How long a poll waits. Reports of records in flight must not wait longer.
const BUSY_POLL: Duration = Duration::from_millis(1);
const IDLE_POLL: Duration = Duration::from_millis(50);
const TICK_EVERY: Duration = Duration::from_millis(50);
const REPORT_EVERY: Duration = Duration::from_secs(1);
const LOAD_RETRY: Duration = Duration::from_millis(500);
/// How long records in flight may delay the release of partitions.
const LEAVE_DEADLINE: Duration = Duration::from_secs(5);

/// The thread that owns partitions: it polls, sequences, appends, and handles changes of the assignment.
pub(crate) struct Worker {
    shell_config: ShellConfig,
    runtime: tokio::runtime::Handle,
    began: Instant,
    /// Milliseconds since `began`, at the beginning of this round: a round is short, and reading the clock for every record would cost more than the
    /// timers need.
    now_ms: u64,
    group: Group,
    starts: Starts,
    partitions: PartitionMap<Phase>,
    fetcher: Fetcher,
    effects: Effects,
    appended: mpsc::Receiver<Appended>,
    /// Reused by [`Self::handle_appended`]; empty between its calls.
    appended_buffer: Vec<Appended>,
    reports: mpsc::Receiver<Report>,
    snapshots: Snapshots,
    halted: HaltedPartitions,
    publisher: Publisher,
}

impl Worker {
    /// Joins the group; partitions come with [`Self::run`]. Needs a tokio runtime, for admin calls.
    pub(crate) fn new(
        config: &Config,
        status: watch::Sender<Status>,
        halted: HaltedPartitions,
    ) -> anyhow::Result<Self> {
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
            partitions: PartitionMap::new(),
            fetcher: Fetcher::new(kafka, Topic::Inbound)?,
            effects: Effects::new(
                kafka,
                config.sequencer.linger_ms,
                appended_sender,
                report_sender,
            )?,
            appended,
            appended_buffer: Vec::new(),
            reports,
            snapshots: Snapshots::new(kafka, runtime.clone())?,
            halted,
            publisher: Publisher::new(status),
            runtime,
        })
    }

    /// Works until `soft` is cancelled, then waits for records in flight. Leaves the group even after an error, so that other members need not wait
    /// for the session timeout.
    ///
    /// # Errors
    /// A [`HaltReason`] that ends the process, or a failure of Kafka.
    pub(crate) fn run(mut self, soft: &CancellationToken) -> anyhow::Result<()> {
        let ended = self.work(soft).and_then(|()| self.drain());
        let Self {
            effects,
            partitions,
            group,
            runtime,
            ..
        } = self;
        // Dropped before the group is left: nothing is produced once other members may have the partitions, and no revoke guard is held when the last
        // revoke comes.
        drop(effects);
        drop(partitions);
        group.leave(&runtime);
        ended
    }

    fn work(&mut self, soft: &CancellationToken) -> anyhow::Result<()> {
        let (mut ticked, mut reported) = (Instant::now(), Instant::now());
        while !soft.is_cancelled() {
            self.run_once()?;
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

    fn run_once(&mut self) -> anyhow::Result<()> {
        self.now_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.handle_group_events()?;
        self.handle_loaded()?;
        self.handle_reports()?;
        self.poll()?;
        self.publisher.publish_changes(&self.partitions);
        Ok(())
    }

    /// Waits for records in flight, without reading any more.
    fn drain(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + LEAVE_DEADLINE;
        while (self.has_pending_outputs() || self.effects.has_snapshots_in_flight())
            && Instant::now() < deadline
        {
            self.handle_reports()?;
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

    fn handle_group_events(&mut self) -> anyhow::Result<()> {
        while let Some(event) = self.group.next_event()? {
            match event {
                GroupEvent::Assigned(partitions) => {
                    tracing::info!(count = partitions.len(), "assigned");
                    self.publisher.joined();
                    self.start(&partitions);
                }
                GroupEvent::Revoked { partitions, guard } => {
                    tracing::info!(count = partitions.len(), "revoked");
                    self.leave(&partitions, guard);
                }
                GroupEvent::Failed(why) => anyhow::bail!("consumer group: {why}"),
            }
        }
        Ok(())
    }

    fn handle_loaded(&mut self) -> anyhow::Result<()> {
        while let Some(LoadReport { starts, outcome }) = self.starts.next_ended() {
            let current = |(partition, generation): &(Partition, AssignmentGeneration)| {
                let phase = self.partitions.get(*partition);
                phase.is_some_and(|phase| phase.is_load(*generation))
            };
            let starts: Vec<(Partition, AssignmentGeneration)> =
                starts.into_iter().filter(current).collect();
            match outcome {
                Ok(mut loaded) => {
                    for (partition, generation) in starts {
                        let loaded = loaded.remove(partition);
                        match loaded.expect("a load has every partition of its request") {
                            Ok(loaded) => self.begin(partition, generation, loaded),
                            Err(refused) => {
                                let retry_in = Some(HaltedPartitions::RETRY);
                                self.halt(partition, None, refused.to_string(), retry_in);
                            }
                        }
                    }
                }
                Err(fault) => {
                    tracing::warn!(%fault, "loading failed, retrying");
                    let retry_at = Instant::now() + LOAD_RETRY;
                    for (partition, generation) in starts {
                        let failed = Phase::LoadFailed {
                            generation,
                            retry_at,
                        };
                        self.set(partition, Some(failed));
                    }
                }
            }
        }
        Ok(())
    }

    fn handle_reports(&mut self) -> anyhow::Result<()> {
        self.handle_appended()?;
        while let Ok(report) = self.reports.try_recv() {
            self.handle_report(report)?;
        }
        Ok(())
    }

    fn handle_appended(&mut self) -> anyhow::Result<()> {
        let mut appended = std::mem::take(&mut self.appended_buffer);
        appended.extend(self.appended.try_iter());
        let taken = appended
            .chunk_by(|a, b| (a.partition, a.generation) == (b.partition, b.generation))
            .try_for_each(|of_shell| self.handle_appended_of_shell(of_shell));
        appended.clear();
        self.appended_buffer = appended;
        taken
    }

    fn handle_appended_of_shell(&mut self, of_shell: &[Appended]) -> anyhow::Result<()> {
        let Some(&Appended {
            partition,
            generation,
            ..
        }) = of_shell.first()
        else {
            return Ok(());
        };
        // Checked even if the shell is gone: no event may follow a lost one.
        let failed = of_shell.iter().find_map(|one| one.outcome.as_ref().err());
        if let Some(failed) = failed {
            return Err(HaltReason::AppendFailed(failed.clone()))
                .with_context(|| format!("partition {partition}"));
        }
        let reports = of_shell.iter();
        let reports = reports.map(|one| (one.ticket, one.outcome.clone()));
        self.drive(partition, Some(generation), |shell, now, io| {
            shell.on_appended(reports, now, io)
        })
    }

    fn handle_report(&mut self, report: Report) -> anyhow::Result<()> {
        let Report {
            partition,
            generation,
            effect,
            outcome,
        } = report;
        match effect {
            Effect::DeadLetter(ticket) => {
                self.drive(partition, Some(generation), |shell, now, io| {
                    shell.on_dead_lettered(ticket, outcome.map(|_| ()), now, io)
                })
            }
            Effect::SnapshotChunk { ticket, of } => {
                if !self
                    .snapshots
                    .reported(partition, generation, ticket, of, &outcome)
                {
                    return Ok(());
                }
                self.effects.snapshot_done(partition, generation);
                self.drive(partition, Some(generation), |shell, now, io| {
                    shell.on_snapshot_finished(ticket, now, io)
                })
            }
        }
    }

    fn poll(&mut self) -> anyhow::Result<()> {
        let timeout = if self.has_pending_outputs() {
            BUSY_POLL
        } else {
            IDLE_POLL
        };
        let Polled {
            taken,
            at_end,
            back_in_range,
            out_of_range,
        } = poll_inbound(
            &mut self.fetcher,
            &mut self.partitions,
            timeout,
            self.now_ms,
        )?;
        for partition in taken {
            self.drive(partition, None, |shell, now, io| {
                shell.send_outputs(now, io)
            })?;
        }
        for partition in at_end {
            self.drive(partition, None, |shell, now, io| {
                shell.on_caught_up(now, io)
            })?;
        }
        for partition in back_in_range {
            self.restart(partition);
        }
        if let Some((partition, why)) = out_of_range {
            // The partition is not halted here, because its decisions are still to be appended.
            self.fetcher.stop(partition);
            self.drive(partition, None, |shell, now, io| {
                shell.on_out_of_range(why, now, io)
            })?;
        }
        Ok(())
    }

    fn tick(&mut self) -> anyhow::Result<()> {
        for partition in self.partitions_where(|phase| phase.owned().is_some()) {
            self.drive(partition, None, |shell, now, io| shell.on_tick(now, io))?;
        }
        let now = Instant::now();
        for partition in self.partitions_where(|phase| phase.is_done_leaving(now)) {
            self.finish_leaving(partition);
        }
        let due = self.partitions_where(|phase| phase.is_load_due(now));
        self.start(&due);
        Ok(())
    }

    fn partitions_where(&self, condition: impl Fn(&Phase) -> bool) -> Vec<Partition> {
        self.partitions
            .iter()
            .filter(|(_, phase)| condition(phase))
            .map(|(partition, _)| partition)
            .collect()
    }

    /// Calls the partition's shell (only one of this generation, if given) and carries out its next action.
    fn drive(
        &mut self,
        partition: Partition,
        generation: Option<AssignmentGeneration>,
        call: impl FnOnce(&mut PartitionShell, u64, &mut ShellIo<'_>) -> NextAction,
    ) -> anyhow::Result<()> {
        let now = self.now_ms;
        let Some(phase) = self.partitions.get_mut(partition) else {
            return Ok(());
        };
        let is_working = matches!(phase, Phase::Working(_));
        let Some(owned) = phase.owned_mut() else {
            return Ok(());
        };
        if generation.is_some_and(|generation| generation != owned.generation) {
            return Ok(());
        }
        let mut io = self.effects.of(partition, owned.generation);
        match call(&mut owned.shell, now, &mut io) {
            NextAction::Continue => {
                self.fetcher
                    .set_paused(partition, !owned.shell.wants_more());
                Ok(())
            }
            NextAction::Reload => {
                tracing::info!(%partition, "another owner has written, or chat.inbound has a new leader; starting again from the log");
                self.fetcher.stop(partition);
                self.finish_leaving(partition);
                Ok(())
            }
            NextAction::Halt(reason) if reason.ends_process() => {
                Err(anyhow::Error::new(reason).context(format!("partition {partition}")))
            }
            NextAction::Halt(reason) if is_working => {
                let before = reason.before().map(NextOffset::new);
                let retry_in = (!reason.needs_restart()).then_some(HaltedPartitions::RETRY);
                self.halt(partition, before, reason.to_string(), retry_in);
                Ok(())
            }
            // The partition is leaving in any case.
            NextAction::Halt(_) => {
                self.finish_leaving(partition);
                Ok(())
            }
        }
    }

    fn report(&mut self) {
        self.publisher.report(&mut self.partitions);
        self.effects.publish();
        let settled = self.partitions.iter().filter_map(|(partition, phase)| {
            let shell = &phase.owned()?.shell;
            Some((partition, NextOffset::new(shell.commit_offset())))
        });
        self.group.commit(settled.collect());
        for (partition, phase) in self.partitions.iter() {
            if let Some(owned) = phase.owned() {
                let next = NextOffset::new(owned.shell.next_inbound());
                self.halted.resumed(partition, next);
            }
        }
    }
}
