//! The shell around the core, one for each owned partition, without I/O of its own. [`PartitionShell`] turns inbound records into appends,
//! dead-letter records and snapshots, in the order that PROTOCOL S6–S12 asks for. [`Loader`] loads the state that it starts with.
//!
//! A shell writes through [`ShellEffects`], whose calls only enqueue. The outcome of a write comes back through the shell's `on_…` methods.
//! The runtime implements `ShellEffects` with Kafka, the simulation with a model of it. Times are milliseconds of any monotonic clock;
//! they decide when something is done, never what is decided.

mod append_tracker;
mod load;
mod outbox;
mod partition;
mod progress;
mod snapshot_schedule;
mod snapshot_store;

#[cfg(test)]
mod tests;

use bytes::Bytes;
use schemas::{
    TimestampMs,
    event::{Event, UnknownRules},
};

pub use load::{EventRecord, LoadError, LoadRequest, Loaded, Loader};
pub use partition::{Counts, PartitionShell};
pub use snapshot_store::{Assembler, CHUNK_BYTES, StoredSnapshot, split};

use crate::core::{Refusal, snapshot::Snapshot};

/// A record of `chat.inbound` with all that a dead-letter record needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundRecord {
    pub offset: i64,
    pub ts: TimestampMs,
    /// Kafka's leader epoch of the record; −1 if unknown.
    pub leader_epoch: i32,
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    pub headers: Vec<(String, Option<Bytes>)>,
}

/// A borrowed record of `chat.inbound`. Only dead-lettered records are copied.
pub trait InboundView {
    fn offset(&self) -> i64;
    fn ts(&self) -> TimestampMs;

    /// Kafka's leader epoch of the record; −1 if unknown.
    fn leader_epoch(&self) -> i32;

    /// Its value; empty if it has none.
    fn value(&self) -> &[u8];

    /// A copy of it.
    fn to_record(&self) -> InboundRecord;
}

impl InboundView for InboundRecord {
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

    fn to_record(&self) -> InboundRecord {
        self.clone()
    }
}

/// A record to be dead-lettered, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    pub record: InboundRecord,
    pub refusal: Refusal,
}

/// The id of one output of a shell, an append or a dead-letter record. Its outcome is reported with this id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutputId(pub u64);

/// The id of one snapshot that a shell writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotWriteId(pub u64);

/// The writes of a shell. Every call only enqueues and is followed by exactly one report of its outcome. Reports of one kind come in the
/// order of the calls. Reports for an earlier shell of the partition must not reach a later one.
pub trait ShellEffects {
    /// Whether a snapshot may be taken now. If not, the shell asks again later.
    fn may_snapshot(&mut self) -> bool;

    /// Appends to this partition of `chat.events`, in the order of the calls; the record's CreateTime is `event.ts`.
    /// Reported by [`PartitionShell::on_appended`]. After a failure nothing enqueued later may be written. A shell cannot ensure that:
    /// librdkafka needs `enable.gapless.guarantee` for it.
    fn append(&mut self, id: OutputId, event: Event);

    /// Writes to this partition of `chat.dead-letters`. Reported by [`PartitionShell::on_dead_lettered`].
    fn dead_letter(&mut self, id: OutputId, letter: DeadLetter);

    /// Writes to this partition of `chat.snapshots`, in the chunks that [`split`] makes. Reported by
    /// [`PartitionShell::on_snapshot_finished`].
    fn store_snapshot(&mut self, id: SnapshotWriteId, snapshot: Snapshot);
}

/// A write failed, or its outcome will never be known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WriteFailed(pub String);

/// What an owner must do after a call of its shell.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum NextAction {
    /// Continue.
    Continue,
    /// Drop the shell and load the partition again: another owner has written (PROTOCOL S11), or `chat.inbound` has a new leader (S13). All outputs
    /// of the shell are reported; a snapshot may not be.
    Reload,
    /// Drop the shell and load the partition again later, unless [`HaltReason::needs_restart`]; if [`HaltReason::ends_process`], end the process.
    Halt(HaltReason),
}

/// Why a partition cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HaltReason {
    /// An append failed: later ones would leave a gap (PROTOCOL S6).
    #[error("an append to chat.events failed: {0}")]
    AppendFailed(WriteFailed),
    /// Reports came in another order than the appends.
    #[error("append {reported:?} was reported where {expected:?} was next")]
    ReportOutOfOrder {
        /// The oldest append in flight; `None` without any.
        expected: Option<OutputId>,
        reported: OutputId,
    },
    /// An append got an offset below the known end of the log.
    #[error(
        "an event was appended at offset {offset} of chat.events, which is known up to {known}: the topic lost records, and since \
         the event names a later record of chat.inbound, they are not decided again. Restore the topic. After a restart the \
         sequencer goes on without them: `tidemark audit` then names what has no event, and messages with the same number"
    )]
    EventsTruncated {
        offset: i64,
        /// The lowest offset it could have.
        known: i64,
    },
    /// A dead-letter record could not be written: nothing after it may be appended (PROTOCOL S7).
    #[error("a dead letter failed: {0}")]
    DeadLetterFailed(WriteFailed),
    /// A record of `chat.inbound` is missing (PROTOCOL S13).
    #[error(
        "chat.inbound: expected offset {expected}, got {offset}: the topic lost records, or a transactional \
         producer wrote to it (its markers take offsets; use a plain one). Check the topic; to go on without what is \
         missing, run `tidemark epoch raise` while every sequencer is stopped"
    )]
    InboundGap { expected: i64, offset: i64 },
    /// The next record of `chat.inbound` is not on the log (PROTOCOL S13).
    #[error("{0}")]
    InboundOutOfRange(String),
    /// A control record needs a newer program (PROTOCOL S5).
    #[error(
        "chat.inbound at offset {offset}: {unknown}. Where that record was never meant: stop every sequencer, delete the \
         partition's records up to it, and run `tidemark epoch raise`"
    )]
    UnknownRules { offset: i64, unknown: UnknownRules },
}

impl HaltReason {
    /// Whether a producer is unusable, so that the process must end before it produces another record, for any partition.
    #[must_use]
    pub fn ends_process(&self) -> bool {
        match self {
            Self::AppendFailed(_) | Self::ReportOutOfOrder { .. } | Self::DeadLetterFailed(_) => {
                true
            }
            Self::EventsTruncated { .. }
            | Self::InboundGap { .. }
            | Self::InboundOutOfRange(_)
            | Self::UnknownRules { .. } => false,
        }
    }

    /// Whether the partition stays halted in this process: a start from the present log would go on without the lost records.
    #[must_use]
    pub fn needs_restart(&self) -> bool {
        matches!(self, Self::EventsTruncated { .. })
    }

    /// The offset of `chat.inbound` that has to be passed.
    #[must_use]
    pub fn before(&self) -> Option<i64> {
        match self {
            Self::InboundGap {
                expected: offset, ..
            }
            | Self::UnknownRules { offset, .. } => Some(*offset),
            _ => None,
        }
    }
}

/// Bounds and intervals of a shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShellConfig {
    /// No more inbound records are read while more outputs than this wait.
    pub max_waiting_records: usize,
    /// No more inbound records are read while more bytes of outputs than this wait.
    pub max_waiting_bytes: usize,
    /// The largest number of appends in flight.
    pub max_in_flight_records: usize,
    /// No further append is sent while this many bytes are in flight, and no further dead-letter record while this many bytes of them are.
    pub max_in_flight_bytes: usize,
    /// The largest number of dead-letter records in flight.
    pub max_dead_letters_in_flight: usize,
    /// A progress event is due when records were stepped and nothing was appended for this long, milliseconds.
    pub progress_idle_ms: u64,
    /// The minimum time between two progress events, milliseconds.
    pub progress_gap_ms: u64,
    /// A snapshot is due after this many events, or after half the number of entries of the last snapshot, if that is more.
    pub snapshot_events: u64,
    /// A snapshot is due when the state has changed and the last one is this old, milliseconds. If a snapshot needs more events than
    /// `snapshot_events`, this time is longer in the same proportion.
    pub snapshot_interval_ms: u64,
}

impl Default for ShellConfig {
    fn default() -> Self {
        Self {
            max_waiting_records: 10_000,
            max_waiting_bytes: 8 << 20,
            max_in_flight_records: 10_000,
            max_in_flight_bytes: 8 << 20,
            max_dead_letters_in_flight: 1_000,
            progress_idle_ms: 1000,
            progress_gap_ms: 100,
            snapshot_events: 100_000,
            snapshot_interval_ms: 5 * 60 * 1000,
        }
    }
}
