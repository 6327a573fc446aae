//! The messages between the coordinator, the fetch thread and the workers.

use std::sync::Arc;

use event_log::{AssignmentGeneration, RevokeGuard};
use schemas::{LogPosition, NextOffset, Partition};

use crate::{EventBatch, dead_letters::Poison};

/// For the fetch thread, from the workers.
pub(crate) enum FetchCommand {
    Start {
        partition: Partition,
        at: LogPosition,
        generation: AssignmentGeneration,
        /// The leader epoch of the newest record when the position was checked against the log.
        leader_epoch: Option<i32>,
    },
    Stop {
        partition: Partition,
    },
}

/// For a worker, from the coordinator and the fetch thread.
pub(crate) enum WorkerCommand {
    Assign(Vec<Partition>),
    /// Other members get the partitions when every worker has dropped its reference to the guard.
    Revoke(Vec<Partition>, Arc<RevokeGuard>),
    /// The end of a partition's log may have been lost. The worker reads on from its store's position, once that position agrees with the log.
    /// Leaders up to this epoch have been elected by now.
    CheckTruncation {
        partition: Partition,
        leader_epoch: Option<i32>,
    },
    /// The partition cannot be read any further. If a record is the cause, `before` is its offset. The records read before are in the batches.
    Halt {
        partition: Partition,
        before: Option<NextOffset>,
        why: String,
    },
}

/// A batch for a worker.
pub(crate) struct FetchedBatch {
    pub(crate) generation: AssignmentGeneration,
    pub(crate) batch: EventBatch,
    /// Records to be dead-lettered before the sink takes the batch.
    pub(crate) poison: Vec<Poison>,
    pub(crate) bytes: usize,
}
