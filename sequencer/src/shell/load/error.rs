//! Why an owner cannot start.

use schemas::Partition;

use crate::core::UnknownRules;

/// Why an owner cannot start. None goes away by itself: the process must end with this message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The beginning of the log is gone and no snapshot replaces it.
    #[error(
        "partition {partition} of chat.events begins at offset {start} and no valid snapshot lies at or above it: restore \
         chat.snapshots or the beginning of chat.events from a backup"
    )]
    NoSnapshot {
        /// The partition.
        partition: Partition,
        /// Where the log begins.
        start: i64,
    },
    /// A snapshot is ahead of the log.
    #[error(
        "partition {partition} of chat.events ends at offset {end}, and a snapshot was taken at {resume}: the topic lost \
         records. Restore them; or, if the deployment was reset on purpose, delete chat.snapshots too"
    )]
    EventsWentBack {
        /// The partition.
        partition: Partition,
        /// Where the log ends.
        end: i64,
        /// Where the fold would go on.
        resume: i64,
    },
    /// Records are missing within the log.
    #[error(
        "partition {partition} of chat.events goes on at offset {offset} where {expected} was next: the topic lost \
         records, is compacted, or a transactional producer wrote to it. Only the sequencer may write to it"
    )]
    EventsGap {
        /// The partition.
        partition: Partition,
        /// The offset that was next.
        expected: i64,
        /// The one that came.
        offset: i64,
    },
    /// The inbound log ends before what was sequenced of it.
    #[error(
        "partition {partition} of chat.inbound ends at offset {end}, and {sequenced} is sequenced already: the topic was \
         created anew or lost records. Restore it; or, to go on with it as it is, stop every sequencer and run \
         `tidemark epoch raise`"
    )]
    InboundWentBack {
        /// The partition.
        partition: Partition,
        /// Where it ends.
        end: i64,
        /// The last offset that was sequenced.
        sequenced: i64,
    },
    /// The inbound log holds another record than the one sequenced.
    #[error(
        "offset {sequenced} of partition {partition} of chat.inbound has leader epoch {found}, and the record sequenced \
         had {expected}: the topic was created anew or lost records. Restore it; or, to go on with it as it is, stop \
         every sequencer and run `tidemark epoch raise`"
    )]
    InboundReplaced {
        /// The partition.
        partition: Partition,
        /// The last offset that was sequenced.
        sequenced: i64,
        /// Its leader epoch then.
        expected: i32,
        /// Its leader epoch now.
        found: i32,
    },
    /// Inbound records were deleted before they were sequenced.
    #[error(
        "partition {partition} of chat.inbound begins at offset {start}, and {next} was to be sequenced next: records \
         were deleted unread. To go on without them, stop every sequencer and run `tidemark epoch raise`; and lengthen the \
         topic's retention"
    )]
    InboundLost {
        /// The partition.
        partition: Partition,
        /// Where it begins.
        start: i64,
        /// The offset that was next.
        next: i64,
    },
    /// The rules ask for a newer program (PROTOCOL S5).
    #[error(transparent)]
    UnknownRules(#[from] UnknownRules),
}
