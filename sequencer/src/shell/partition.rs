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

/// The outcomes of a record besides an event.
const REPEAT: &str = "repeat";
const IDLE_READ_ACK: &str = "idle_read_ack";
const IDLE_CHANGE: &str = "idle_change";
const DEAD_LETTER: &str = "dead_letter";
const OTHER_OUTCOMES: [&str; 4] = [REPEAT, IDLE_READ_ACK, IDLE_CHANGE, DEAD_LETTER];

/// How many records a shell has processed since it started, by outcome: the kind of event, or another outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; Body::LABELS.len() + OTHER_OUTCOMES.len()]);

impl Counts {
    fn add(&mut self, outcome: &str) {
        let mut counts = self.0.iter_mut().zip(Self::outcomes());
        let (count, _) = counts
            .find(|(_, name)| *name == outcome)
            .expect("every outcome is listed");
        *count += 1;
    }

    /// The outcomes with their counts.
    pub fn by_outcome(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Self::outcomes().zip(self.0)
    }

    fn outcomes() -> impl Iterator<Item = &'static str> {
        Body::LABELS.into_iter().chain(OTHER_OUTCOMES)
    }
}

/// The decisions for one owned partition, without I/O.
pub struct PartitionShell {
    partition: Partition,
    state: State,
    /// The last inbound record that was stepped, by this or an earlier owner.
    stepped: Source,
    /// The source of the last event, by this or an earlier owner.
    last_emitted: Source,
    /// Whether the last record of the log is a repeat by a former owner. Readers that look for the highest source in the last records might miss it.
    ends_with_repeat: bool,
    /// The last event that this shell queued.
    last_event: Option<OutputId>,
    /// The highest leader epoch for which `chat.inbound` was compared with what was sequenced; `None` until a record was read.
    leader_epoch: Option<i32>,
    /// The next record has a higher leader epoch: the log may have lost its end and have grown again (PROTOCOL S13).
    has_new_leader: bool,
    outbox: Outbox,
    appends: AppendTracker,
    progress: ProgressTimer,
    snapshots: SnapshotSchedule,
    /// Why the next record cannot be stepped. Decisions before it are still written.
    blocked: Option<HaltReason>,
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
            last_emitted: loaded.last,
            ends_with_repeat: loaded
                .before_end
                .is_some_and(|before| before.offset < loaded.last.offset),
            last_event: None,
            leader_epoch: loaded.inbound_leader_epoch,
            has_new_leader: false,
            outbox: Outbox::new(config),
            appends: AppendTracker::new(loaded.events_end, loaded.before_end),
            progress: ProgressTimer::new(&config, now_ms),
            blocked: None,
            halted: None,
            counts: Counts::default(),
        }
    }

    /// The offset of the inbound record to be stepped next.
    #[must_use]
    pub fn next_inbound(&self) -> i64 {
        self.stepped.offset.offset + 1
    }

    /// The offset to commit for the consumer group: every record below it has its output acknowledged.
    #[must_use]
    pub fn commit_offset(&self) -> i64 {
        self.outbox
            .oldest_inbound()
            .unwrap_or_else(|| self.next_inbound())
    }

    /// Whether to read more inbound records.
    #[must_use]
    pub fn wants_more(&self) -> bool {
        self.takes_records() && self.outbox.has_room()
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

    /// Whether a snapshot is being stored.
    #[must_use]
    pub fn is_storing_snapshot(&self) -> bool {
        self.snapshots.is_storing()
    }

    /// The state after the last record stepped.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    fn takes_records(&self) -> bool {
        self.halted.is_none()
            && self.blocked.is_none()
            && !self.has_new_leader
            && !self.is_superseded()
    }

    /// Steps the inbound record at [`Self::next_inbound`]. Its output waits for [`Self::send_outputs`]. Records are ignored once another owner or a
    /// new leader has been noticed, or a record cannot be stepped.
    pub fn take(&mut self, record: &impl InboundView, now_ms: u64) {
        if !self.takes_records() {
            return;
        }
        let epoch = record.leader_epoch();
        self.has_new_leader = epoch > *self.leader_epoch.get_or_insert(epoch);
        if !self.has_new_leader {
            self.blocked = self.step(record, now_ms).err();
        }
    }

    /// Sends the outputs of the records that were taken.
    pub fn send_outputs(&mut self, now_ms: u64, effects: &mut impl ShellEffects) -> NextAction {
        self.handle(now_ms, effects, |_, _| Ok(()))
    }

    /// Call this when the inbound partition can no longer be read from [`Self::next_inbound`].
    pub fn on_out_of_range(
        &mut self,
        why: String,
        now_ms: u64,
        effects: &mut impl ShellEffects,
    ) -> NextAction {
        self.handle(now_ms, effects, |shell, _| {
            let reason = HaltReason::InboundOutOfRange(why);
            shell.blocked.get_or_insert(reason);
            Ok(())
        })
    }

    /// Call this at the end of the inbound partition.
    pub fn on_caught_up(&mut self, now_ms: u64, effects: &mut impl ShellEffects) -> NextAction {
        self.handle(now_ms, effects, |shell, _| {
            if shell.needs_progress() {
                shell.progress.caught_up();
            }
            Ok(())
        })
    }

    /// Appends were acknowledged, in order, with their offsets (`None` if unknown), or failed.
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

    /// A snapshot was stored, or failed. A failure only makes the next start longer.
    pub fn on_snapshot_finished(
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

    /// Lets timers expire. Call this about every 50 ms.
    pub fn on_tick(&mut self, now_ms: u64, effects: &mut impl ShellEffects) -> NextAction {
        self.handle(now_ms, effects, |_, _| Ok(()))
    }

    /// Does `work`, then queues progress, takes a snapshot and sends outputs as they are due.
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
        if self.is_superseded() {
            // Do not wait for a snapshot: it may take for ever, and its report does not matter.
            return if self.outbox.nothing_in_flight() {
                NextAction::Reload
            } else {
                NextAction::Continue
            };
        }
        if self.outbox.len() == 0 {
            if self.has_new_leader {
                return NextAction::Reload;
            }
            if let Some(reason) = &self.blocked {
                return NextAction::Halt(reason.clone());
            }
        }
        self.queue_progress(now_ms);
        self.take_snapshot(now_ms, effects);
        self.outbox.send(effects);
        NextAction::Continue
    }

    /// Whether another owner has written, so that nothing more is stepped or sent (PROTOCOL S11).
    fn is_superseded(&self) -> bool {
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
                self.counts.add(DEAD_LETTER);
                let record = record.to_record();
                self.outbox.push_dead_letter(DeadLetter { record, refusal });
            }
            Decision::NoOp(no_op) => self.count_no_op(no_op),
            Decision::Halt(unknown) => {
                return Err(HaltReason::UnknownRules { offset, unknown });
            }
        }
        self.stepped = src;
        Ok(())
    }

    fn emit(&mut self, event: Event, now_ms: u64) {
        self.counts.add(event.body.label());
        self.state.apply(&event);
        self.snapshots.changed();
        self.progress.output(now_ms);
        self.last_emitted = event.src;
        self.ends_with_repeat = false;
        self.last_event = Some(self.outbox.push_event(event));
    }

    fn count_no_op(&mut self, no_op: NoOp) {
        self.counts.add(match no_op {
            NoOp::Repeat => REPEAT,
            NoOp::PositionNotAdvanced { .. } | NoOp::UnknownConversation | NoOp::NoteToSelf => {
                IDLE_READ_ACK
            }
            NoOp::AlreadyRecalled
            | NoOp::AlreadyCleared
            | NoOp::ContactUnchanged
            | NoOp::GroupUnchanged => IDLE_CHANGE,
        });
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

    /// Queues a progress event if one is needed (PROTOCOL S8). Only if nothing waits, so that progress events do not accumulate while the log is
    /// unavailable.
    fn queue_progress(&mut self, now_ms: u64) {
        let may_go = self.outbox.nothing_waits() && self.needs_progress();
        if !may_go || !self.progress.is_due(now_ms) {
            return;
        }
        self.counts.add(Body::Progress.label());
        self.progress.queued(now_ms);
        self.last_emitted = self.stepped;
        self.ends_with_repeat = false;
        let progress = Event {
            src: self.stepped,
            ts: self.state.clock(),
            body: Body::Progress,
            command: None,
            words: None,
        };
        self.last_event = Some(self.outbox.push_event(progress));
    }

    /// Whether records were stepped after the source of the last event, or the last record does not have that source.
    fn needs_progress(&self) -> bool {
        self.stepped.offset > self.last_emitted.offset || self.ends_with_repeat
    }

    /// Takes a snapshot of the state after the last queued event, if one is due. Later records without an event changed nothing, so the event's
    /// source is the snapshot's watermark (PROTOCOL S12).
    fn take_snapshot(&mut self, now_ms: u64, effects: &mut impl ShellEffects) {
        let Some(event) = self.last_event.filter(|_| self.snapshots.is_due(now_ms)) else {
            return;
        };
        if !effects.may_snapshot() {
            return;
        }
        self.snapshots
            .take(event, Snapshot::of(&self.state, self.last_emitted), now_ms);
        if self.outbox.is_appended(event) {
            self.snapshots.store(&self.appends, effects);
        }
    }
}
