//! One owned partition.

use schemas::{
    Partition,
    event::{Body, Event, Source, SourceOffset},
};

use super::{
    DeadLetter, Failed, Flow, HaltReason, Io, Loaded, LogRecord, ShellConfig, SnapshotTicket,
    Ticket, known_log::KnownLog, outbox::Outbox, progress::ProgressTimer,
    snapshot_schedule::SnapshotSchedule,
};
use crate::{
    core::{Decision, Inbound, Silent, State, snapshot::Snapshot, step},
    sabotage::{self, Rule, dropped},
};

/// What a shell has done since it started.
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
    /// The last inbound record that was stepped, here or by an earlier owner.
    stepped: Source,
    /// The source of the last event put in line, here or by an earlier owner.
    answered: Source,
    /// The last event put in line here.
    last_event: Option<Ticket>,
    outbox: Outbox,
    log: KnownLog,
    progress: ProgressTimer,
    snapshots: SnapshotSchedule,
    halted: Option<HaltReason>,
    counts: Counts,
}

impl PartitionShell {
    /// Goes on behind what was loaded.
    #[must_use]
    pub fn start(partition: Partition, loaded: Loaded, config: ShellConfig, now_ms: u64) -> Self {
        Self {
            partition,
            snapshots: SnapshotSchedule::new(config, partition, &loaded, now_ms),
            state: loaded.state,
            stepped: loaded.last,
            answered: loaded.last,
            last_event: None,
            outbox: Outbox::new(config),
            log: KnownLog::new(loaded.events_end, loaded.before_end),
            progress: ProgressTimer::new(&config, now_ms),
            halted: None,
            counts: Counts::default(),
        }
    }

    /// The offset of the inbound record to be handed in next.
    #[must_use]
    pub fn next_inbound(&self) -> i64 {
        self.stepped.offset.offset + 1
    }

    /// The offset of the first inbound record that is not dealt with for good: what its predecessors came to is on the
    /// topics.
    #[must_use]
    pub fn settled_inbound(&self) -> i64 {
        self.outbox
            .oldest_inbound()
            .unwrap_or_else(|| self.next_inbound())
    }

    /// Whether inbound records are wanted; if not, they are better left where they are for a while.
    #[must_use]
    pub fn wants_more(&self) -> bool {
        self.halted.is_none() && !self.is_stopping() && self.outbox.has_room()
    }

    /// How many outputs wait or are in flight.
    #[must_use]
    pub fn pending_outputs(&self) -> usize {
        self.outbox.len()
    }

    /// What it has done so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The state behind the last record stepped.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Steps the inbound record at [`Self::next_inbound`]. What it comes to waits for [`Self::on_taken`], which says how to go
    /// on; after [`Flow::Restart`] is due records are passed over.
    pub fn take(&mut self, record: &impl LogRecord, now_ms: u64) {
        if self.halted.is_none() && !self.is_stopping() {
            self.halted = self.step(record, now_ms).err();
        }
    }

    /// Inbound records were taken.
    pub fn on_taken(&mut self, now_ms: u64, io: &mut impl Io) -> Flow {
        self.run(now_ms, io, |_, _| Ok(()))
    }

    /// There are no further inbound records right now.
    pub fn on_drained(&mut self, now_ms: u64, io: &mut impl Io) -> Flow {
        self.run(now_ms, io, |shell, _| {
            if shell.has_unanswered() {
                shell.progress.drained();
            }
            Ok(())
        })
    }

    /// These appends, in their order, are each on the log at this offset (`None`: at one that is not known), or failed.
    pub fn on_appended(
        &mut self,
        reports: impl IntoIterator<Item = (Ticket, Result<Option<i64>, Failed>)>,
        now_ms: u64,
        io: &mut impl Io,
    ) -> Flow {
        self.run(now_ms, io, |shell, io| {
            reports
                .into_iter()
                .try_for_each(|(ticket, result)| shell.appended(ticket, result, io))
        })
    }

    /// A dead letter is on its topic, or failed.
    pub fn on_dead_lettered(
        &mut self,
        ticket: Ticket,
        result: Result<(), Failed>,
        now_ms: u64,
        io: &mut impl Io,
    ) -> Flow {
        self.run(now_ms, io, |shell, _| {
            result.map_err(HaltReason::DeadLetterFailed)?;
            shell.outbox.dead_lettered(ticket);
            Ok(())
        })
    }

    /// A snapshot is stored whole, or was lost, which costs nothing but a longer start.
    pub fn on_snapshot_stored(
        &mut self,
        ticket: SnapshotTicket,
        now_ms: u64,
        io: &mut impl Io,
    ) -> Flow {
        self.run(now_ms, io, |shell, _| {
            shell.snapshots.stored(ticket);
            Ok(())
        })
    }

    /// Time has passed. To be called every 50 ms or so.
    pub fn on_tick(&mut self, now_ms: u64, io: &mut impl Io) -> Flow {
        self.run(now_ms, io, |shell, _| {
            sabotage::after_tick(&mut shell.state);
            Ok(())
        })
    }

    /// What every call does besides its own work.
    fn run<I: Io>(
        &mut self,
        now_ms: u64,
        io: &mut I,
        work: impl FnOnce(&mut Self, &mut I) -> Result<(), HaltReason>,
    ) -> Flow {
        if self.halted.is_none() {
            self.halted = work(self, io).err();
        }
        if let Some(reason) = &self.halted {
            return Flow::Halt(reason.clone());
        }
        if self.is_stopping() {
            let drained = self.outbox.nothing_in_flight() && !self.snapshots.is_storing();
            return if drained {
                Flow::Restart
            } else {
                Flow::Continue
            };
        }
        self.put_progress_in_line(now_ms);
        self.take_snapshot(now_ms, io);
        self.outbox.send(io);
        Flow::Continue
    }

    /// Another owner has written: nothing more is stepped or sent (PROTOCOL S11).
    fn is_stopping(&self) -> bool {
        self.log.has_foreign() && !dropped(Rule::S11)
    }

    fn step(&mut self, record: &impl LogRecord, now_ms: u64) -> Result<(), HaltReason> {
        let (expected, offset) = (self.next_inbound(), record.offset());
        if offset != expected && !dropped(Rule::S13Contiguous) {
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
        let mut decision = step(&self.state, self.partition, &inbound);
        sabotage::after_step(&mut self.state, &inbound, &mut decision);
        match decision {
            Decision::Emit(event) => self.emit(event, now_ms),
            Decision::DeadLetter(refusal) => {
                self.counts.dead_letters += 1;
                let record = record.whole();
                self.outbox.push_dead_letter(DeadLetter { record, refusal });
            }
            Decision::Silent(silent) => self.count_silent(silent),
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
        self.answered = event.src;
        self.last_event = Some(self.outbox.push_event(event));
    }

    fn count_silent(&mut self, silent: Silent) {
        match silent {
            Silent::Repeat { .. } => self.counts.repeats += 1,
            Silent::ReadNotAbove { .. } | Silent::ReadNothing | Silent::ReadOwnNotes => {
                self.counts.idle_read_acks += 1;
            }
        }
    }

    fn appended(
        &mut self,
        ticket: Ticket,
        result: Result<Option<i64>, Failed>,
        io: &mut impl Io,
    ) -> Result<(), HaltReason> {
        let offset = match result {
            Err(cause) if !dropped(Rule::S6Failed) => return Err(HaltReason::AppendFailed(cause)),
            other => other.ok(),
        };
        let src = self.outbox.appended(ticket)?;
        let Some(offset) = offset else {
            return Ok(());
        };
        self.log.appended(offset, src)?;
        if self.snapshots.waits_for() == Some(ticket) {
            if dropped(Rule::S12Copy) {
                self.snapshots
                    .take(ticket, Snapshot::of(&self.state, src), 0);
            }
            self.snapshots.store(&self.log, io);
        }
        Ok(())
    }

    /// Answers for what was stepped without an event, in line behind the events (PROTOCOL S8). Only where nothing
    /// waits, so that a stuck log does not collect progress.
    fn put_progress_in_line(&mut self, now_ms: u64) {
        let in_turn = self.outbox.nothing_waits() || dropped(Rule::S8InLine);
        if !in_turn || !self.has_unanswered() || !self.progress.is_due(now_ms) {
            return;
        }
        self.counts.progress += 1;
        self.progress.sent(now_ms);
        self.answered = self.stepped;
        let progress = self.progress_event();
        self.last_event = Some(if dropped(Rule::S8InLine) {
            self.outbox.sabotaged_push_event(progress)
        } else {
            self.outbox.push_event(progress)
        });
    }

    /// Whether records were stepped that no event answers for.
    fn has_unanswered(&self) -> bool {
        self.stepped.offset > self.answered.offset && !dropped(Rule::S8Answer)
    }

    fn progress_event(&self) -> Event {
        Event {
            src: self.stepped,
            ts: self.state.clock(),
            body: Body::Progress,
        }
    }

    /// Takes a copy of the state behind the last event put in line, if it is time. Silent records changed nothing
    /// since, so the event's source is the copy's watermark (PROTOCOL S12).
    fn take_snapshot(&mut self, now_ms: u64, io: &mut impl Io) {
        let Some(event) = self.last_event.filter(|_| self.snapshots.is_due(now_ms)) else {
            return;
        };
        if !io.may_snapshot() {
            return;
        }
        self.snapshots
            .take(event, Snapshot::of(&self.state, self.answered), now_ms);
        if self.outbox.is_appended(event) || dropped(Rule::S12Acknowledged) {
            self.snapshots.store(&self.log, io);
        }
    }
}
