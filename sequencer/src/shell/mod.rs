//! What surrounds the core in one owned partition, still without I/O: [`PartitionShell`] turns inbound records into
//! appends, dead letters and snapshots in the order that PROTOCOL S6–S12 asks for, and [`Loader`] makes its start.
//!
//! Effects go through [`Io`], whose calls only enqueue; what became of them comes back through the shell's `on_…`
//! methods. The runtime implements `Io` over Kafka, the simulation over a model of it. Times are milliseconds of any
//! clock that never goes back; they decide when something is done, never what.

mod known_log;
mod load;
mod outbox;
mod partition;
mod progress;
mod snapshot_schedule;
mod snapshot_store;

#[cfg(test)]
mod tests;

use bytes::Bytes;
use schemas::{TimestampMs, event::Event};

pub use load::{EventRecord, LoadError, Loaded, Loader, LogRange, Need};
pub use partition::{Counts, PartitionShell};
pub use snapshot_store::{Assembler, CHUNK_BYTES, split};

use crate::core::{Refusal, UnknownRules, snapshot::Snapshot};

/// One record of `chat.inbound`, whole, so that it can become a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundRecord {
    /// Its offset.
    pub offset: i64,
    /// Its log-append time.
    pub ts: TimestampMs,
    /// Kafka's leader epoch of it; −1 where it is not known.
    pub leader_epoch: i32,
    /// Its key as it came.
    pub key: Option<Bytes>,
    /// Its value as it came.
    pub value: Option<Bytes>,
    /// Its headers as they came.
    pub headers: Vec<(String, Option<Bytes>)>,
}

/// A record of `chat.inbound`, wherever it lies: only one that becomes a dead letter is kept whole.
pub trait LogRecord {
    /// Its offset.
    fn offset(&self) -> i64;

    /// Its log-append time.
    fn ts(&self) -> TimestampMs;

    /// Kafka's leader epoch of it; −1 where it is not known.
    fn leader_epoch(&self) -> i32;

    /// Its value; empty where it has none.
    fn value(&self) -> &[u8];

    /// A copy of it.
    fn whole(&self) -> InboundRecord;
}

impl LogRecord for InboundRecord {
    fn offset(&self) -> i64 {
        self.offset
    }

    fn ts(&self) -> TimestampMs {
        self.ts
    }

    fn leader_epoch(&self) -> i32 {
        self.leader_epoch
    }

    fn value(&self) -> &[u8] {
        self.value.as_deref().unwrap_or_default()
    }

    fn whole(&self) -> InboundRecord {
        self.clone()
    }
}

/// A record that could not be processed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The record.
    pub record: InboundRecord,
    /// Why.
    pub refusal: Refusal,
}

/// Names one output of one shell, an append or a dead letter: what became of it is reported under this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Names one snapshot of one shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotTicket(pub u64);

/// The effects of a shell. Every call only enqueues; each is answered by exactly one report, and reports of one kind
/// come in the order of the calls. Reports of an earlier shell of the partition must not reach a later one.
pub trait Io {
    /// Whether a snapshot may be taken now. One that may not is asked for again.
    fn may_snapshot(&mut self) -> bool;

    /// Appends to this partition of `chat.events`, in the order of the calls; the record's CreateTime is `event.ts`.
    /// Answered by [`PartitionShell::on_appended`]. After a failure nothing enqueued later may land, which no shell
    /// can see to: librdkafka needs `enable.gapless.guarantee` for it.
    fn append(&mut self, ticket: Ticket, event: Event);

    /// Writes to this partition of `chat.dead-letters`. Answered by [`PartitionShell::on_dead_lettered`].
    fn dead_letter(&mut self, ticket: Ticket, letter: DeadLetter);

    /// Writes to this partition of `chat.snapshots`, in the pieces that [`split`] makes of its message. Answered by
    /// [`PartitionShell::on_snapshot_stored`].
    fn store_snapshot(&mut self, ticket: SnapshotTicket, snapshot: Snapshot);
}

/// A write that is known to have failed, or whose outcome will never be known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failed(pub String);

/// How an owner goes on after a call of its shell.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Flow {
    /// As before.
    Continue,
    /// Another owner has written (PROTOCOL S11) and everything of this shell is reported: drop it and start anew.
    Restart,
    /// The process must end before it produces anything else.
    Halt(HaltReason),
}

/// Why the process must end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HaltReason {
    /// An append failed: later ones would leave a hole (PROTOCOL S6).
    #[error("an append to chat.events failed: {0}")]
    AppendFailed(Failed),
    /// Reports of appends came in another order than the appends.
    #[error("append {reported:?} was reported where {expected:?} was next")]
    ReportOutOfOrder {
        /// The oldest append in flight; `None` without any.
        expected: Option<Ticket>,
        /// The one reported.
        reported: Ticket,
    },
    /// An append landed below what is known of the log.
    #[error(
        "an event was appended at offset {offset} of chat.events, which is known up to {known}: the topic lost records. \
         Restore them, or compare the projections with the log before going on"
    )]
    EventsWentBack {
        /// Where it landed.
        offset: i64,
        /// The lowest offset it could have.
        known: i64,
    },
    /// A dead letter failed: nothing behind it may be appended (PROTOCOL S7).
    #[error("a dead letter failed: {0}")]
    DeadLetterFailed(Failed),
    /// A record of `chat.inbound` is missing (PROTOCOL S13).
    #[error(
        "chat.inbound goes on at offset {offset} where {expected} was next: the topic lost records, or a transactional \
         producer wrote to it (its markers take offsets; use a plain one). Check the topic; to go on without what is \
         missing, run `tidemark epoch raise` while every sequencer is stopped"
    )]
    InboundGap {
        /// The offset that was next.
        expected: i64,
        /// The one that came.
        offset: i64,
    },
    /// The rules ask for a newer program (PROTOCOL S5).
    #[error(
        "chat.inbound at offset {offset}: {unknown}. Where that record was never meant: stop every sequencer, delete the \
         partition's records up to it, and run `tidemark epoch raise`"
    )]
    UnknownRules {
        /// Of the control record.
        offset: i64,
        /// What it asks for.
        unknown: UnknownRules,
    },
}

/// Bounds and intervals of a shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShellConfig {
    /// From this many decided outputs waiting on, no more inbound records are wanted.
    pub max_waiting_records: usize,
    /// From this many bytes of them waiting on, no more inbound records are wanted.
    pub max_waiting_bytes: usize,
    /// The most appends in flight.
    pub max_in_flight_records: usize,
    /// From this many bytes in flight on, no further append is made.
    pub max_in_flight_bytes: usize,
    /// The most dead letters in flight.
    pub max_dead_letters_in_flight: usize,
    /// Progress is due when nothing was appended for this long although stepping went on, milliseconds.
    pub progress_idle_ms: u64,
    /// The shortest time between two progress records, milliseconds.
    pub progress_gap_ms: u64,
    /// A snapshot is due after this many events, or half as many as the last one held sends and conversations, if that is more.
    pub snapshot_events: u64,
    /// A snapshot is due when there were changes and the last is this old, milliseconds; longer where more events than
    /// `snapshot_events` are waited for, in the same proportion.
    pub snapshot_interval_ms: u64,
}

impl Default for ShellConfig {
    fn default() -> Self {
        Self {
            max_waiting_records: 10_000,
            max_waiting_bytes: 8 << 20,
            max_in_flight_records: 10_000,
            max_in_flight_bytes: 8 << 20,
            max_dead_letters_in_flight: 100,
            progress_idle_ms: 1000,
            progress_gap_ms: 100,
            snapshot_events: 100_000,
            snapshot_interval_ms: 5 * 60 * 1000,
        }
    }
}
