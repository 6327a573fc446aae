use schemas::{Partition, event::UnknownRules};

/// Why a partition cannot start: it is halted with this message and loaded again from time to time.
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
        "partition {partition} of chat.events: the log end offset is {end}, and a snapshot was taken at offset {snapshot_offset}: \
         the topic was truncated. Restore it; or, if the deployment was reset on purpose, delete chat.snapshots too"
    )]
    EventsTruncated {
        partition: Partition,
        end: i64,
        snapshot_offset: i64,
    },
    /// Records are missing within the log.
    #[error(
        "partition {partition} of chat.events: expected offset {expected}, got {offset}: the topic lost \
         records, is compacted, or a transactional producer wrote to it. Only the sequencer may write to it"
    )]
    EventsGap {
        partition: Partition,
        expected: i64,
        offset: i64,
    },
    /// The inbound log ends before what was sequenced of it.
    #[error(
        "partition {partition} of chat.inbound: the log end offset is {end}, but offset {sequenced} was already sequenced: the \
         topic was recreated or truncated. Restore it; or accept it as it is by stopping every sequencer and running \
         `tidemark epoch raise`"
    )]
    InboundTruncated {
        partition: Partition,
        end: i64,
        sequenced: i64,
    },
    /// The inbound log holds another record than the one sequenced.
    #[error(
        "offset {sequenced} of partition {partition} of chat.inbound has leader epoch {found}, and the record sequenced \
         had {expected}: the topic was recreated or truncated. Restore it; or accept it as it is by \
         stopping every sequencer and running `tidemark epoch raise`"
    )]
    InboundReplaced {
        partition: Partition,
        sequenced: i64,
        expected: i32,
        found: i32,
    },
    /// Inbound records were deleted before they were sequenced.
    #[error(
        "partition {partition} of chat.inbound: the log start offset is {start}, but the next to sequence is {next}: records \
         were deleted unread. To go on without them, stop every sequencer and run `tidemark epoch raise`; and raise the \
         topic's retention.ms"
    )]
    InboundLost {
        partition: Partition,
        start: i64,
        next: i64,
    },
    /// A newer program wrote an event or a snapshot (PROTOCOL S5).
    #[error(transparent)]
    UnknownRules(#[from] UnknownRules),
}
