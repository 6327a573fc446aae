//! A partition that this process owns.

use std::{sync::Arc, time::Instant};

use event_log::{AssignmentGeneration, RevokeGuard};

use crate::shell::{Counts, PartitionShell};

/// The phase of a partition.
pub(super) enum Phase {
    /// The state is being loaded.
    Loading(AssignmentGeneration),
    /// The load failed and will be retried.
    LoadFailed {
        generation: AssignmentGeneration,
        retry_at: Instant,
    },
    /// The partition waits for an operator. It is loaded again from time to time, unless only a restart of the process lets it go on.
    Halted {
        generation: AssignmentGeneration,
        retry_at: Option<Instant>,
    },
    Working(Owned),
    /// No more records are read. The partition is released once nothing is in flight, so that the next owner sees all of its records. Exactness does
    /// not depend on that (PROTOCOL S11).
    Leaving {
        owned: Owned,
        /// When the partition is released even with records in flight.
        until: Instant,
        then: Then,
    },
}

/// What happens to a partition after it has left.
pub(super) enum Then {
    /// Other members may have it.
    Release(#[expect(dead_code, reason = "its drop is the message")] Arc<RevokeGuard>),
    /// The partition is loaded again here, from the log as it is then.
    Reload,
}

impl Phase {
    pub(super) fn generation(&self) -> AssignmentGeneration {
        match self {
            Self::Loading(generation)
            | Self::LoadFailed { generation, .. }
            | Self::Halted { generation, .. } => *generation,
            Self::Working(owned) | Self::Leaving { owned, .. } => owned.generation,
        }
    }

    pub(super) fn owned(&self) -> Option<&Owned> {
        match self {
            Self::Loading(_) | Self::LoadFailed { .. } | Self::Halted { .. } => None,
            Self::Working(owned) | Self::Leaving { owned, .. } => Some(owned),
        }
    }

    pub(super) fn owned_mut(&mut self) -> Option<&mut Owned> {
        match self {
            Self::Loading(_) | Self::LoadFailed { .. } | Self::Halted { .. } => None,
            Self::Working(owned) | Self::Leaving { owned, .. } => Some(owned),
        }
    }

    pub(super) fn into_owned(self) -> Option<Owned> {
        match self {
            Self::Loading(_) | Self::LoadFailed { .. } | Self::Halted { .. } => None,
            Self::Working(owned) | Self::Leaving { owned, .. } => Some(owned),
        }
    }

    /// Whether the partition is in the load of this generation.
    pub(super) fn is_load(&self, of: AssignmentGeneration) -> bool {
        matches!(self, Self::Loading(generation) if *generation == of)
    }

    pub(super) fn is_load_due(&self, now: Instant) -> bool {
        match self {
            Self::LoadFailed { retry_at, .. } => *retry_at <= now,
            Self::Halted { retry_at, .. } => retry_at.is_some_and(|at| at <= now),
            Self::Loading(_) | Self::Working(_) | Self::Leaving { .. } => false,
        }
    }

    /// Whether the partition is leaving, and nothing is in flight or its deadline has passed.
    pub(super) fn is_done_leaving(&self, now: Instant) -> bool {
        matches!(self, Self::Leaving { owned, until, .. } if owned.shell.pending_outputs() == 0 || now >= *until)
    }
}

/// A partition with its shell.
pub(super) struct Owned {
    pub(super) shell: PartitionShell,
    pub(super) generation: AssignmentGeneration,
    /// The counts that are already in the totals.
    pub(super) counted: Counts,
}

impl Owned {
    pub(super) fn new(shell: PartitionShell, generation: AssignmentGeneration) -> Self {
        Self {
            shell,
            generation,
            counted: Counts::default(),
        }
    }
}
