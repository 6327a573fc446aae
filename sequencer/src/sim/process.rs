//! One sequencer process: the real loader and shell, and a producer for each topic.

use std::collections::VecDeque;

use prost::Message as _;
use schemas::{OffsetRange, event::Event, proto::SequencerSnapshot};

use super::{
    kafka::{Broker, Client, LogRecord, Report, Response},
    rng::Rng,
    shared::{Environment, Shared},
    trace, traffic,
};
use crate::{
    core::snapshot::Snapshot,
    shell::{
        Assembler, DeadLetter, EventRecord, HaltReason, LoadError, LoadRequest, Loader, NextAction,
        OutputId, PartitionShell, ShellConfig, ShellEffects, SnapshotWriteId, split,
    },
};

/// Small, so that snapshots have several pieces.
pub(crate) const CHUNK_BYTES: usize = 150;

/// An id of an output, with the number of the shell in this process.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Tag<T = OutputId> {
    shell: u64,
    id: T,
}

enum Role {
    Idle,
    Loading(Box<Loader>),
    Owner(Box<PartitionShell>),
}

enum Completion {
    Appended(Report<Tag>),
    DeadLettered(Tag),
    SnapshotStored(Tag<SnapshotWriteId>),
}

/// The shell's writes: queues that the simulation drains.
struct SimEffects {
    client: Client<Tag>,
    letters: VecDeque<(Tag, DeadLetter)>,
    snapshots: VecDeque<(Tag<SnapshotWriteId>, SequencerSnapshot)>,
    shell: u64,
    /// The offset of the shell's next record if nobody else appends.
    next_offset: i64,
    saw_foreign_record: bool,
    appended_after_foreign_record: bool,
}

impl ShellEffects for SimEffects {
    fn may_snapshot(&mut self) -> bool {
        true
    }

    fn append(&mut self, id: OutputId, event: Event) {
        self.appended_after_foreign_record |= self.saw_foreign_record;
        let tag = self.tag(id);
        trace(format_args!(
            "  connection {}: append {event:?}",
            self.client.connection()
        ));
        let ts = event.ts;
        let value = event.encode();
        self.client.enqueue(tag, LogRecord { ts, value });
    }

    fn dead_letter(&mut self, id: OutputId, letter: DeadLetter) {
        let tag = self.tag(id);
        self.letters.push_back((tag, letter));
    }

    fn store_snapshot(&mut self, id: SnapshotWriteId, snapshot: Snapshot) {
        let tag = self.tag(id);
        self.snapshots.push_back((tag, snapshot.into_message()));
    }
}

impl SimEffects {
    fn tag<T>(&self, id: T) -> Tag<T> {
        Tag {
            shell: self.shell,
            id,
        }
    }

    fn track_offset(&mut self, offset: Option<i64>) {
        // An unknown offset may hide another owner's record.
        self.saw_foreign_record |= offset != Some(self.next_offset);
        self.next_offset = offset.map_or(0, |offset| offset + 1);
    }
}

/// Why a process ends.
#[derive(Debug)]
pub(crate) enum Exit {
    /// As expected.
    Expected,
    /// Something that must not happen.
    Wrong(String),
}

pub(crate) struct Process {
    pub(crate) id: u64,
    pub(crate) is_paused: bool,
    config: ShellConfig,
    effects: SimEffects,
    responses: VecDeque<Response>,
    completions: VecDeque<Completion>,
    role: Role,
}

impl Process {
    pub(crate) fn new(
        id: u64,
        environment: &Environment,
        broker: &mut Broker,
        rng: &mut Rng,
    ) -> Self {
        Self {
            id,
            is_paused: false,
            config: config(rng),
            effects: SimEffects {
                client: Client::new(broker, environment.gapless_producer),
                letters: VecDeque::new(),
                snapshots: VecDeque::new(),
                shell: 0,
                next_offset: 0,
                saw_foreign_record: false,
                appended_after_foreign_record: false,
            },
            responses: VecDeque::new(),
            completions: VecDeque::new(),
            role: Role::Idle,
        }
    }

    pub(crate) fn connection(&self) -> u64 {
        self.effects.client.connection()
    }

    pub(crate) fn is_owner(&self) -> bool {
        matches!(self.role, Role::Owner(_))
    }

    /// Receives a response.
    pub(crate) fn receive(&mut self, response: Response) {
        self.responses.push_back(response);
    }

    pub(crate) fn lose_connection(&mut self, broker: &mut Broker) {
        self.responses.clear();
        self.effects.client.reconnect(broker);
    }

    /// The broker forgets the producer. That takes 30 days without a record, so it happens only after all reports are delivered.
    pub(crate) fn be_forgotten(&self, broker: &mut Broker) {
        if self.completions.is_empty() {
            self.effects.client.be_forgotten(broker);
        }
    }

    /// The process learns that the partition is assigned to another.
    pub(crate) fn be_revoked(&mut self) {
        self.role = Role::Idle;
    }

    /// Starts to load the partition. Records of an earlier shell may still be in flight.
    pub(crate) fn be_assigned(&mut self, shared: &mut Shared) -> Result<(), Exit> {
        if !matches!(self.role, Role::Idle) {
            return Ok(());
        }
        let mut snapshots = Assembler::default();
        for value in &shared.snapshots {
            snapshots.push(value);
        }
        let loader = Loader::new(
            traffic::partition(),
            OffsetRange {
                start: 0,
                end: shared.broker.end(),
            },
            OffsetRange {
                start: shared.inbound_start,
                end: shared.posted as i64,
            },
            snapshots.finish(),
        )?;
        self.role = Role::Loading(Box::new(loader));
        Ok(())
    }

    /// Takes one step, chosen at random.
    pub(crate) fn act(&mut self, shared: &mut Shared, rng: &mut Rng) -> Result<(), Exit> {
        match rng.below(9) {
            0 | 1 => self.read(shared, rng),
            2 => self.tick(shared),
            3 | 4 => {
                self.effects.client.send(&mut shared.broker, rng);
                Ok(())
            }
            5 => {
                self.take_response();
                Ok(())
            }
            6 => {
                self.write_dead_letter(shared);
                Ok(())
            }
            7 => {
                self.write_snapshot(shared, rng);
                Ok(())
            }
            _ => self.deliver_report(shared),
        }
    }

    /// Reads records: for the loader, or inbound records to step.
    fn read(&mut self, shared: &mut Shared, rng: &mut Rng) -> Result<(), Exit> {
        match &mut self.role {
            Role::Idle => Ok(()),
            Role::Loading(loader) => {
                answer_request(loader, shared, rng)?;
                if loader.request() == LoadRequest::Done {
                    self.start(shared);
                }
                Ok(())
            }
            Role::Owner(shell) => {
                let next = shell.next_inbound() as usize;
                let available = shared.posted.saturating_sub(next);
                let effects = &mut self.effects;
                let action = if available == 0 {
                    shell.on_caught_up(shared.now_ms, effects)
                } else if shell.wants_more() {
                    let count = 1 + rng.below(available.min(8));
                    for record in &shared.inbound[next..next + count] {
                        shell.take(record, shared.now_ms);
                    }
                    shared.committed = (next + count) as i64;
                    shell.send_outputs(shared.now_ms, effects)
                } else {
                    NextAction::Continue
                };
                self.act_on(action)
            }
        }
    }

    fn start(&mut self, shared: &mut Shared) {
        let Role::Loading(loader) = std::mem::replace(&mut self.role, Role::Idle) else {
            return;
        };
        let Some(mut loaded) = loader.finish() else {
            return;
        };
        if shared.environment.starts_at_the_groups_offset {
            loaded.last.offset.offset = shared.committed - 1;
        }
        let newest = shared.inbound[..shared.posted].last();
        loaded.inbound_leader_epoch = newest.map(|record| record.leader_epoch);
        trace(format_args!(
            "process {} starts behind {:?}, log up to {}",
            self.id, loaded.last, loaded.events_end
        ));
        self.effects.shell += 1;
        self.effects.next_offset = loaded.events_end;
        self.effects.saw_foreign_record = false;
        let shell = PartitionShell::start(traffic::partition(), loaded, self.config, shared.now_ms);
        self.role = Role::Owner(Box::new(shell));
    }

    fn tick(&mut self, shared: &Shared) -> Result<(), Exit> {
        let Role::Owner(shell) = &mut self.role else {
            return Ok(());
        };
        let action = shell.on_tick(shared.now_ms, &mut self.effects);
        self.act_on(action)
    }

    fn take_response(&mut self) {
        if let Some(response) = self.responses.pop_front() {
            let reports = self.effects.client.on_response(&response);
            self.completions
                .extend(reports.into_iter().map(Completion::Appended));
        }
    }

    fn write_dead_letter(&mut self, shared: &mut Shared) {
        if let Some((tag, letter)) = self.effects.letters.pop_front() {
            shared
                .dead_letters
                .push((letter.record.offset, letter.refusal.reason));
            self.completions.push_back(Completion::DeadLettered(tag));
        }
    }

    /// Stores a snapshot; some are torn, some corrupt.
    fn write_snapshot(&mut self, shared: &mut Shared, rng: &mut Rng) {
        let Some((tag, snapshot)) = self.effects.snapshots.pop_front() else {
            return;
        };
        let mut chunks = split(&snapshot, CHUNK_BYTES);
        shared.taken.push(snapshot);
        let hit = rng.below(chunks.len());
        match rng.below(6) {
            0 => chunks.truncate(hit),
            1 => drop(chunks.remove(hit)),
            2 => {
                let byte = rng.below(chunks[hit].payload.len());
                chunks[hit].payload[byte] ^= 1 << rng.below(8);
            }
            _ => {}
        }
        let values = chunks.iter().map(|chunk| chunk.encode_to_vec());
        shared.snapshots.extend(values);
        self.completions.push_back(Completion::SnapshotStored(tag));
    }

    /// Delivers one report. Reports for an earlier shell are dropped, but a failed append ends the process in any case.
    fn deliver_report(&mut self, shared: &Shared) -> Result<(), Exit> {
        let Some(completion) = self.completions.pop_front() else {
            return Ok(());
        };
        let of = match &completion {
            Completion::Appended(report) => report.tag.shell,
            Completion::DeadLettered(tag) => tag.shell,
            Completion::SnapshotStored(tag) => tag.shell,
        };
        let (Role::Owner(shell), true) = (&mut self.role, of == self.effects.shell) else {
            let failed =
                matches!(&completion, Completion::Appended(report) if report.result.is_err());
            return if failed { Err(Exit::Expected) } else { Ok(()) };
        };
        let (effects, now_ms) = (&mut self.effects, shared.now_ms);
        let action = match completion {
            Completion::Appended(report) => {
                if let Ok(offset) = report.result {
                    effects.track_offset(offset);
                }
                shell.on_appended([(report.tag.id, report.result)], now_ms, effects)
            }
            Completion::DeadLettered(tag) => {
                shell.on_dead_lettered(tag.id, Ok(()), now_ms, effects)
            }
            Completion::SnapshotStored(tag) => shell.on_snapshot_finished(tag.id, now_ms, effects),
        };
        self.act_on(action)
    }

    fn act_on(&mut self, action: NextAction) -> Result<(), Exit> {
        if self.effects.appended_after_foreign_record {
            return Err(Exit::Wrong(
                "appended although another owner was seen".to_owned(),
            ));
        }
        if action != NextAction::Continue {
            trace(format_args!("{self:?}: {action:?}"));
        }
        match action {
            NextAction::Continue => Ok(()),
            NextAction::Reload => {
                self.role = Role::Idle;
                Ok(())
            }
            NextAction::Halt(reason) => Err(reason.into()),
        }
    }
}

impl From<HaltReason> for Exit {
    fn from(reason: HaltReason) -> Self {
        match reason {
            // The broker rejected a record: the process ends, and another takes over.
            HaltReason::AppendFailed(_) => Self::Expected,
            other => Self::Wrong(format!("halted: {other}")),
        }
    }
}

impl From<LoadError> for Exit {
    fn from(error: LoadError) -> Self {
        Self::Wrong(format!("could not load: {error}"))
    }
}

/// Gives the loader the input that it asks for, or a part of it.
fn answer_request(loader: &mut Loader, shared: &Shared, rng: &mut Rng) -> Result<(), LoadError> {
    let record = |offset: i64| {
        let record = &shared.broker.log[offset as usize];
        EventRecord {
            offset,
            ts: record.ts,
            value: &record.value,
        }
    };
    match loader.request() {
        LoadRequest::RecordBeforeSnapshot(offset) => {
            loader.on_record_before_snapshot(&record(offset))
        }
        LoadRequest::Events(from) => {
            let to = (from + rng.between(1, 40)).min(shared.broker.end());
            loader.on_events((from..to).map(record))
        }
        LoadRequest::InboundLeaderEpoch(offset) => {
            let retained = offset >= shared.inbound_start;
            let epoch = retained.then(|| shared.inbound[offset as usize].leader_epoch);
            loader.on_inbound_leader_epoch(epoch)
        }
        LoadRequest::Done => Ok(()),
    }
}

/// Small limits, so that all of them are reached.
fn config(rng: &mut Rng) -> ShellConfig {
    ShellConfig {
        max_waiting_records: 1 + rng.below(20),
        max_waiting_bytes: 500 + rng.below(5000),
        max_in_flight_records: 1 + rng.below(10),
        max_in_flight_bytes: 500 + rng.below(5000),
        max_dead_letters_in_flight: 1 + rng.below(3),
        progress_idle_ms: 300,
        progress_gap_ms: 30,
        snapshot_events: 2 + rng.below(20) as u64,
        snapshot_interval_ms: 500,
    }
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let role = match &self.role {
            Role::Idle => "idle".to_owned(),
            Role::Loading(loader) => format!("loading, needs {:?}", loader.request()),
            Role::Owner(shell) => format!("owner, next inbound {}", shell.next_inbound()),
        };
        write!(
            f,
            "process {} ({role}, paused: {})",
            self.id, self.is_paused
        )
    }
}
