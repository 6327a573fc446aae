//! One sequencer process: the real loader and shell, and a producer for each topic.

use std::collections::VecDeque;

use prost::Message as _;
use schemas::{event::Event, proto::SequencerSnapshot};

use super::{
    kafka::{Broker, Client, LogRecord, Report, Response},
    rng::Rng,
    simulation::{CHUNK_BYTES, Shared, Trouble},
    trace, traffic,
};
use crate::{
    core::snapshot::Snapshot,
    sabotage::{Rule, dropped},
    shell::{
        Assembler, DeadLetter, EventRecord, Flow, HaltReason, Io, LoadError, Loader, LogRange,
        Need, PartitionShell, ShellConfig, SnapshotTicket, Ticket, split,
    },
};

/// A ticket of one of the shells that a process has had.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Tag<T = Ticket> {
    shell: u64,
    ticket: T,
}

enum Role {
    Idle,
    Loading(Box<Loader>),
    Owner(Box<PartitionShell>),
}

enum Settled {
    Appended(Report<Tag>),
    DeadLettered(Tag),
    SnapshotStored(Tag<SnapshotTicket>),
}

/// Where a shell's effects go.
struct Outlet {
    client: Client<Tag>,
    letters: VecDeque<(Tag, DeadLetter)>,
    snapshots: VecDeque<(Tag<SnapshotTicket>, SequencerSnapshot)>,
    shell: u64,
    /// What the shell's next own record must take if nobody else writes.
    next_offset: i64,
    knows_of_another: bool,
    appended_nevertheless: bool,
}

impl Io for Outlet {
    fn may_snapshot(&mut self) -> bool {
        true
    }

    fn append(&mut self, ticket: Ticket, event: Event) {
        self.appended_nevertheless |= self.knows_of_another;
        let tag = self.tag(ticket);
        trace(format_args!(
            "  connection {}: append {event:?}",
            self.client.connection()
        ));
        let ts = event.ts;
        let value = event.encode();
        self.client.enqueue(tag, LogRecord { ts, value });
    }

    fn dead_letter(&mut self, ticket: Ticket, letter: DeadLetter) {
        let tag = self.tag(ticket);
        self.letters.push_back((tag, letter));
    }

    fn store_snapshot(&mut self, ticket: SnapshotTicket, snapshot: Snapshot) {
        let tag = self.tag(ticket);
        self.snapshots.push_back((tag, snapshot.into_message()));
    }
}

impl Outlet {
    fn tag<T>(&self, ticket: T) -> Tag<T> {
        Tag {
            shell: self.shell,
            ticket,
        }
    }

    fn saw_offset(&mut self, offset: Option<i64>) {
        // An offset that is not known may hide another's record.
        self.knows_of_another |= offset != Some(self.next_offset);
        self.next_offset = offset.map_or(0, |offset| offset + 1);
    }
}

pub(crate) struct Process {
    pub(crate) id: u64,
    pub(crate) is_paused: bool,
    config: ShellConfig,
    outlet: Outlet,
    responses: VecDeque<Response>,
    settled: VecDeque<Settled>,
    role: Role,
}

impl Process {
    pub(crate) fn new(id: u64, broker: &mut Broker, rng: &mut Rng) -> Self {
        Self {
            id,
            is_paused: false,
            config: config(rng),
            outlet: Outlet {
                client: Client::new(broker),
                letters: VecDeque::new(),
                snapshots: VecDeque::new(),
                shell: 0,
                next_offset: 0,
                knows_of_another: false,
                appended_nevertheless: false,
            },
            responses: VecDeque::new(),
            settled: VecDeque::new(),
            role: Role::Idle,
        }
    }

    pub(crate) fn connection(&self) -> u64 {
        self.outlet.client.connection()
    }

    pub(crate) fn is_owner(&self) -> bool {
        matches!(self.role, Role::Owner(_))
    }

    /// A response has come back over its connection.
    pub(crate) fn receive(&mut self, response: Response) {
        self.responses.push_back(response);
    }

    pub(crate) fn lose_connection(&mut self, broker: &mut Broker) {
        self.responses.clear();
        self.outlet.client.reconnect(broker);
    }

    /// The broker forgets the producer. That takes 30 days without a record, so every report is long heard.
    pub(crate) fn be_forgotten(&self, broker: &mut Broker) {
        if self.settled.is_empty() {
            self.outlet.client.be_forgotten(broker);
        }
    }

    /// The group has given the partition to another, and this process learns of it.
    pub(crate) fn be_revoked(&mut self) {
        self.role = Role::Idle;
    }

    /// Begins to own the partition. Records of an earlier shell may still be under way.
    pub(crate) fn be_assigned(&mut self, shared: &mut Shared) -> Result<(), Trouble> {
        if !matches!(self.role, Role::Idle) {
            return Ok(());
        }
        let mut snapshots = Assembler::default();
        for value in &shared.snapshots {
            snapshots.push(value);
        }
        let loader = Loader::new(
            traffic::partition(),
            LogRange {
                start: 0,
                end: shared.broker.end(),
            },
            LogRange {
                start: shared.inbound_start,
                end: shared.inbound_end() as i64,
            },
            snapshots.finish(),
        )?;
        self.role = Role::Loading(Box::new(loader));
        Ok(())
    }

    /// Does one thing, chosen at random.
    pub(crate) fn act(&mut self, shared: &mut Shared, rng: &mut Rng) -> Result<(), Trouble> {
        match rng.below(9) {
            0 | 1 => self.read(shared, rng),
            2 => self.tick(shared),
            3 | 4 => {
                self.outlet.client.send(&mut shared.broker, rng);
                Ok(())
            }
            5 => {
                self.take_response();
                Ok(())
            }
            6 => {
                self.write_letter(shared);
                Ok(())
            }
            7 => {
                self.write_snapshot(shared, rng);
                Ok(())
            }
            _ => self.hear(shared),
        }
    }

    /// Reads what it is waiting for: the logs to start from, or inbound records.
    fn read(&mut self, shared: &mut Shared, rng: &mut Rng) -> Result<(), Trouble> {
        match &mut self.role {
            Role::Idle => Ok(()),
            Role::Loading(loader) => {
                feed(loader, shared, rng)?;
                if loader.need() == Need::Nothing {
                    self.start(shared);
                }
                Ok(())
            }
            Role::Owner(shell) => {
                let next = shell.next_inbound() as usize;
                let available = shared.inbound_end().saturating_sub(next);
                let io = &mut self.outlet;
                let flow = if available == 0 {
                    shell.on_drained(shared.now_ms, io)
                } else if shell.wants_more() {
                    let count = 1 + rng.below(available.min(8));
                    for record in &shared.inbound[next..next + count] {
                        shell.take(record, shared.now_ms);
                    }
                    shared.committed = (next + count) as i64;
                    shell.on_taken(shared.now_ms, io)
                } else {
                    Flow::Continue
                };
                self.follow(flow)
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
        if dropped(Rule::S9) {
            loaded.last.offset.offset = shared.committed - 1;
        }
        if dropped(Rule::S5Defaults) && self.id % 2 == 1 {
            let mut rules = *loaded.state.rules();
            rules.max_msg_bytes = 10;
            loaded.state.set_rules(rules);
        }
        trace(format_args!(
            "process {} starts behind {:?}, log up to {}",
            self.id, loaded.last, loaded.events_end
        ));
        self.outlet.shell += 1;
        self.outlet.next_offset = loaded.events_end;
        self.outlet.knows_of_another = false;
        let shell = PartitionShell::start(traffic::partition(), loaded, self.config, shared.now_ms);
        self.role = Role::Owner(Box::new(shell));
    }

    fn tick(&mut self, shared: &Shared) -> Result<(), Trouble> {
        let Role::Owner(shell) = &mut self.role else {
            return Ok(());
        };
        let flow = shell.on_tick(shared.now_ms, &mut self.outlet);
        self.follow(flow)
    }

    fn take_response(&mut self) {
        if let Some(response) = self.responses.pop_front() {
            let reports = self.outlet.client.on_response(&response);
            self.settled
                .extend(reports.into_iter().map(Settled::Appended));
        }
    }

    fn write_letter(&mut self, shared: &mut Shared) {
        if let Some((tag, letter)) = self.outlet.letters.pop_front() {
            shared
                .dead_letters
                .push((letter.record.offset, letter.refusal.reason));
            self.settled.push_back(Settled::DeadLettered(tag));
        }
    }

    /// Stores a snapshot; some are torn, some corrupt.
    fn write_snapshot(&mut self, shared: &mut Shared, rng: &mut Rng) {
        let Some((tag, snapshot)) = self.outlet.snapshots.pop_front() else {
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
        self.settled.push_back(Settled::SnapshotStored(tag));
    }

    /// Hears of one effect. A shell that is gone hears nothing; a failed append ends the process all the same.
    fn hear(&mut self, shared: &Shared) -> Result<(), Trouble> {
        let Some(settled) = self.settled.pop_front() else {
            return Ok(());
        };
        let of = match &settled {
            Settled::Appended(report) => report.tag.shell,
            Settled::DeadLettered(tag) => tag.shell,
            Settled::SnapshotStored(tag) => tag.shell,
        };
        let (Role::Owner(shell), true) = (&mut self.role, of == self.outlet.shell) else {
            let failed = matches!(&settled, Settled::Appended(report) if report.result.is_err());
            return if failed { Err(Trouble::Ends) } else { Ok(()) };
        };
        let (io, now_ms) = (&mut self.outlet, shared.now_ms);
        let flow = match settled {
            Settled::Appended(report) => {
                if let Ok(offset) = report.result {
                    io.saw_offset(offset);
                }
                shell.on_appended([(report.tag.ticket, report.result)], now_ms, io)
            }
            Settled::DeadLettered(tag) => shell.on_dead_lettered(tag.ticket, Ok(()), now_ms, io),
            Settled::SnapshotStored(tag) => shell.on_snapshot_stored(tag.ticket, now_ms, io),
        };
        self.follow(flow)
    }

    fn follow(&mut self, flow: Flow) -> Result<(), Trouble> {
        if self.outlet.appended_nevertheless {
            return Err(Trouble::Wrong(
                "appended although another owner was seen".to_owned(),
            ));
        }
        if flow != Flow::Continue {
            trace(format_args!("{self:?}: {flow:?}"));
        }
        match flow {
            Flow::Continue => Ok(()),
            Flow::Restart => {
                self.role = Role::Idle;
                Ok(())
            }
            Flow::Halt(reason) => Err(reason.into()),
        }
    }
}

impl From<HaltReason> for Trouble {
    fn from(reason: HaltReason) -> Self {
        match reason {
            // Denied by the broker: the process ends, and another goes on.
            HaltReason::AppendFailed(_) => Self::Ends,
            other => Self::Wrong(format!("halted: {other}")),
        }
    }
}

impl From<LoadError> for Trouble {
    fn from(error: LoadError) -> Self {
        Self::Wrong(format!("could not load: {error}"))
    }
}

/// Gives a loader what it needs next, or a part of it.
fn feed(loader: &mut Loader, shared: &Shared, rng: &mut Rng) -> Result<(), LoadError> {
    let record = |offset: i64| {
        let record = &shared.broker.log[offset as usize];
        EventRecord {
            offset,
            ts: record.ts,
            value: &record.value,
        }
    };
    match loader.need() {
        Need::Witness(offset) => loader.on_witness(&record(offset)),
        Need::Events(from) => {
            let to = (from + rng.between(1, 40)).min(shared.broker.end());
            loader.on_events((from..to).map(record))
        }
        Need::InboundLeaderEpoch(offset) => {
            let retained = offset >= shared.inbound_start;
            let epoch = retained.then(|| shared.inbound[offset as usize].leader_epoch);
            loader.on_inbound_leader_epoch(epoch)
        }
        Need::Nothing => Ok(()),
    }
}

/// Small bounds, so that all are met.
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
            Role::Loading(loader) => format!("loading, needs {:?}", loader.need()),
            Role::Owner(shell) => format!("owner, next inbound {}", shell.next_inbound()),
        };
        write!(
            f,
            "process {} ({role}, paused: {})",
            self.id, self.is_paused
        )
    }
}
