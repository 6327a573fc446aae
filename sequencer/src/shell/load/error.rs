//! Errors that prevent an owner from starting.

use schemas::Partition;

use crate::core::UnknownRules;

/// An error that prevents an owner from starting. A retry does not help, so the process ends with this message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The beginning of the log is gone and no snapshot replaces it.
    #[error(
        "partition {partition} of chat.events begins at offset {start} and there is no valid snapshot at or above it: restore \
         chat.snapshots or the beginning of chat.events from a backup"
    )]
    NoSnapshot { partition: Partition, start: i64 },
    /// A snapshot is ahead of the log.
    #[error(
        "partition {partition} of chat.events ends at offset {end}, and a snapshot was taken at {resume}: the topic lost \
         records. Restore them; or, if the deployment was reset on purpose, delete chat.snapshots too"
    )]
    EventsWentBack {
        partition: Partition,
        end: i64,
        resume: i64,
    },
    /// Records are missing within the log.
    #[error(
        "partition {partition} of chat.events goes on at offset {offset} where {expected} was next: the topic lost \
         records, is compacted, or a transactional producer wrote to it. Only the sequencer may write to it"
    )]
    EventsGap {
        partition: Partition,
        expected: i64,
        offset: i64,
    },
    /// The inbound log ends before what was sequenced of it.
    #[error(
        "partition {partition} of chat.inbound ends at offset {end}, and {sequenced} is sequenced already: the topic was \
         created again or lost records. Restore it; or, to go on with it as it is, stop every sequencer and run \
         `tidemark epoch raise`"
    )]
    InboundWentBack {
        partition: Partition,
        end: i64,
        sequenced: i64,
    },
    /// The inbound log holds another record than the one sequenced.
    #[error(
        "offset {sequenced} of partition {partition} of chat.inbound has leader epoch {found}, and the record sequenced \
         had {expected}: the topic was created again or lost records. Restore it; or, to go on with it as it is, stop \
         every sequencer and run `tidemark epoch raise`"
    )]
    InboundReplaced {
        partition: Partition,
        sequenced: i64,
        expected: i32,
        found: i32,
    },
    /// Inbound records were deleted before they were sequenced.
    #[error(
        "partition {partition} of chat.inbound begins at offset {start}, and {next} was to be sequenced next: records \
         were deleted unread. To go on without them, stop every sequencer and run `tidemark epoch raise`; and lengthen the \
         topic's retention"
    )]
    InboundLost {
        partition: Partition,
        start: i64,
        next: i64,
    },
    /// The rules ask for a newer program (PROTOCOL S5).
    #[error(transparent)]
    UnknownRules(#[from] UnknownRules),
}
