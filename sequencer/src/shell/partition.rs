//! One owned partition.

use schemas::{
    Partition,
    event::{Body, Event, Source, SourceOffset},
};

use super::{
    DeadLetter, HaltReason, InboundView, Loaded, NextAction, OutputId, ShellConfig, ShellEffects,
    SnapshotWriteId, WriteFailed, append_tracker::AppendTracker, outbox::Outbox,
    progress::ProgressTimer, snapshot_schedule::SnapshotSchedule,
};
use crate::core::{Decision, Inbound, NoOp, State, snapshot::Snapshot, step};

/// How many records of each kind a shell has processed since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages sequenced.
    pub messages: u64,
    /// Read positions moved.
    pub read_positions: u64,
    /// Control records applied.
    pub controls: u64,
    /// Progress records.
    pub progress: u64,
    /// Repeats of sequenced sends.
    pub repeats: u64,
    /// Read-acks that moved nothing.
    pub idle_read_acks: u64,
    /// Records refused.
    pub dead_letters: u64,
}

/// The owner of one partition, without its I/O.
pub struct PartitionShell {
    partition: Partition,
    state: State,
    /// The last inbound record that was stepped, by this or an earlier owner.
    stepped: Source,
    /// The source of the last event, by this or an earlier owner.
    covered: Source,
    /// The last event that this shell queued.
    last_event: Option<OutputId>,
    outbox: Outbox,
    appends: AppendTracker,
    progress: ProgressTimer,
    snapshots: SnapshotSchedule,
    halted: Option<HaltReason>,
    counts: Counts,
}

impl PartitionShell {
    /// Continues from a loaded state.
    #[must_use]
    pub fn start(partition: Partition, loaded: Loaded, config: ShellConfig, now_ms: u64) -> Self {
        Self {
            partition,
            snapshots: SnapshotSchedule::new(config, partition, &loaded, now_ms),
            state: loaded.state,
            stepped: loaded.last,
            covered: loaded.last,
            last_event: None,
            outbox: Outbox::new(config),
            appends: AppendTracker::new(loaded.events_end, loaded.before_end),
            progress: ProgressTimer::new(&config, now_ms),
            halted: None,
            counts: Counts::default(),
        }
    }

    /// The offset of the inbound record to be stepped next.
    #[must_use]
    pub fn next_inbound(&self) -> i64 {
        self.stepped.offset.offset + 1
    }

    /// The offset of the first inbound record whose output is not acknowledged yet.
    #[must_use]
    pub fn settled_inbound(&self) -> i64 {
        self.outbox
            .oldest_inbound()
            .unwrap_or_else(|| self.next_inbound())
    }

    /// Whether to read more inbound records.
    #[must_use]
    pub fn wants_more(&self) -> bool {
        self.halted.is_none() && !self.is_stopping() && self.outbox.has_room()
    }

    /// The number of outputs that wait or are in flight.
    #[must_use]
    pub fn pending_outputs(&self) -> usize {
        self.outbox.len()
    }

    /// The counts of records processed.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The state after the last record stepped.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Steps the inbound record at [`Self::next_inbound`]. Its output waits for [`Self::on_taken`]. Once another owner has been noticed,
    /// records are ignored.
    pub fn take(&mut self, record: &impl InboundView, now_ms: u64) {
        if self.halted.is_none() && !self.is_stopping() {
            self.halted = self.step(record, now_ms).err();
        }
    }

    /// Some inbound records were taken.
    pub fn on_taken(&mut self, now_ms: u64, effects: &mut impl ShellEffects) -> NextAction {
        self.handle(now_ms, effects, |_, _| Ok(()))
    }

    /// All inbound records of the topic are taken.
    pub fn on_drained(&mut self, now_ms: u64, effects: &mut impl ShellEffects) -> NextAction {
        self.handle(now_ms, effects, |shell, _| {
            if shell.has_uncovered_records() {
                shell.progress.drained();
            }
            Ok(())
        })
    }

    /// Appends, in their order, were acknowledged with their offsets (`None` for an unknown offset) or failed.
    pub fn on_appended(
        &mut self,
        reports: impl IntoIterator<Item = (OutputId, Result<Option<i64>, WriteFailed>)>,
        now_ms: u64,
        effects: &mut impl ShellEffects,
    ) -> NextAction {
        self.handle(now_ms, effects, |shell, effects| {
            reports
                .into_iter()
                .try_for_each(|(id, result)| shell.appended(id, result, effects))
        })
    }

    /// A dead-letter record was acknowledged or failed.
    pub fn on_dead_lettered(
        &mut self,
        id: OutputId,
        result: Result<(), WriteFailed>,
        now_ms: u64,
        effects: &mut impl ShellEffects,
    ) -> NextAction {
        self.handle(now_ms, effects, |shell, _| {
            result.map_err(HaltReason::DeadLetterFailed)?;
            shell.outbox.dead_lettered(id);
            Ok(())
        })
    }

    /// A snapshot is stored or failed. A failure only makes the next start longer.
    pub fn on_snapshot_stored(
        &mut self,
        id: SnapshotWriteId,
        now_ms: u64,
        effects: &mut impl ShellEffects,
    ) -> NextAction {
        self.handle(now_ms, effects, |shell, _| {
            shell.snapshots.stored(id);
            Ok(())
        })
    }

    /// Lets timers expire. To be called about every 50 ms.
    pub fn on_tick(&mut self, now_ms: u64, effects: &mut impl ShellEffects) -> NextAction {
        self.handle(now_ms, effects, |_, _| Ok(()))
    }

    /// Does `work`, then everything that may have become due by it.
    fn handle<I: ShellEffects>(
        &mut self,
        now_ms: u64,
        effects: &mut I,
        work: impl FnOnce(&mut Self, &mut I) -> Result<(), HaltReason>,
    ) -> NextAction {
        if self.halted.is_none() {
            self.halted = work(self, effects).err();
        }
        if let Some(reason) = &self.halted {
            return NextAction::Halt(reason.clone());
        }
        if self.is_stopping() {
            let drained = self.outbox.nothing_in_flight() && !self.snapshots.is_storing();
            return if drained {
                NextAction::Restart
            } else {
                NextAction::Continue
            };
        }
        self.queue_progress(now_ms);
        self.take_snapshot(now_ms, effects);
        self.outbox.send(effects);
        NextAction::Continue
    }

    /// Whether another owner has written, so that nothing more is stepped or sent (PROTOCOL S11).
    fn is_stopping(&self) -> bool {
        self.appends.has_foreign_record()
    }

    fn step(&mut self, record: &impl InboundView, now_ms: u64) -> Result<(), HaltReason> {
        let (expected, offset) = (self.next_inbound(), record.offset());
        if offset != expected {
            return Err(HaltReason::InboundGap { expected, offset });
        }
        let src = Source {
            offset: SourceOffset {
                epoch: self.stepped.offset.epoch,
                offset,
            },
            leader_epoch: record.leader_epoch(),
        };
        let inbound = Inbound {
            src,
            ts: record.ts(),
            value: record.value(),
        };
        match step(&self.state, self.partition, &inbound) {
            Decision::Emit(event) => self.emit(event, now_ms),
            Decision::DeadLetter(refusal) => {
                self.counts.dead_letters += 1;
                let record = record.to_record();
                self.outbox.push_dead_letter(DeadLetter { record, refusal });
            }
            Decision::NoOp(no_op) => self.count_no_op(no_op),
            Decision::Stop(unknown) => {
                return Err(HaltReason::UnknownRules { offset, unknown });
            }
        }
        self.stepped = src;
        Ok(())
    }

    fn emit(&mut self, event: Event, now_ms: u64) {
        match event.body {
            Body::Message(_) => self.counts.messages += 1,
            Body::ReadPosition(_) => self.counts.read_positions += 1,
            Body::Control(_) => self.counts.controls += 1,
            Body::Progress => self.counts.progress += 1,
        }
        self.state.apply(&event);
        self.snapshots.changed();
        self.progress.output(now_ms);
        self.covered = event.src;
        self.last_event = Some(self.outbox.push_event(event));
    }

    fn count_no_op(&mut self, no_op: NoOp) {
        match no_op {
            NoOp::Repeat { .. } => self.counts.repeats += 1,
            NoOp::ReadNotAbove { .. } | NoOp::UnknownConversation | NoOp::NoteToSelf => {
                self.counts.idle_read_acks += 1;
            }
        }
    }

    fn appended(
        &mut self,
        id: OutputId,
        result: Result<Option<i64>, WriteFailed>,
        effects: &mut impl ShellEffects,
    ) -> Result<(), HaltReason> {
        let offset = result.map_err(HaltReason::AppendFailed)?;
        let src = self.outbox.appended(id)?;
        self.appends.appended(offset, src)?;
        if self.snapshots.waits_for() == Some(id) {
            self.snapshots.store(&self.appends, effects);
        }
        Ok(())
    }

    /// Queues a progress event for the records that were stepped without an event (PROTOCOL S8). Only if nothing waits, so that progress
    /// events do not accumulate while the log is unavailable.
    fn queue_progress(&mut self, now_ms: u64) {
        let may_go = self.outbox.nothing_waits() && self.has_uncovered_records();
        if !may_go || !self.progress.is_due(now_ms) {
            return;
        }
        self.counts.progress += 1;
        self.progress.sent(now_ms);
        self.covered = self.stepped;
        let progress = Event {
            src: self.stepped,
            ts: self.state.clock(),
            body: Body::Progress,
        };
        self.last_event = Some(self.outbox.push_event(progress));
    }

    /// Whether records were stepped after the source of the last event.
    fn has_uncovered_records(&self) -> bool {
        self.stepped.offset > self.covered.offset
    }

    /// Takes a snapshot of the state after the last queued event, if one is due. Records without an event changed nothing since, so the
    /// event's source is the snapshot's watermark (PROTOCOL S12).
    fn take_snapshot(&mut self, now_ms: u64, effects: &mut impl ShellEffects) {
        let Some(event) = self.last_event.filter(|_| self.snapshots.is_due(now_ms)) else {
            return;
        };
        if !effects.may_snapshot() {
            return;
        }
        self.snapshots
            .take(event, Snapshot::of(&self.state, self.covered), now_ms);
        if self.outbox.is_appended(event) {
            self.snapshots.store(&self.appends, effects);
        }
    }
}
