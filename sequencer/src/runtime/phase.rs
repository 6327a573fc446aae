//! One partition in this process's hands.

use std::{sync::Arc, time::Instant};

use event_log::{EventLogError, Fetcher, Released};
use schemas::Partition;

use super::effects::Run;
use crate::shell::{Counts, PartitionShell};

/// How far a partition is with this process.
pub(super) enum Phase {
    /// Its start is under way, or due again.
    Starting {
        run: Run,
        /// When to try again, after a try that Kafka failed.
        retry_at: Option<Instant>,
    },
    Working(Owned),
    /// No more is read, and it is let go once nothing is in flight, so that the next start sees all of it. Exactness
    /// does not depend on that (PROTOCOL S11).
    Leaving {
        owned: Owned,
        /// When it is let go all the same.
        until: Instant,
        then: Then,
    },
}

/// What comes after a partition was let go.
pub(super) enum Then {
    /// Another process may have it.
    Release(#[expect(dead_code, reason = "its drop is the message")] Arc<Released>),
    /// It starts anew here, from the log as it is then.
    StartAnew,
}

impl Phase {
    pub(super) fn owned(&self) -> Option<&Owned> {
        match self {
            Self::Starting { .. } => None,
            Self::Working(owned) | Self::Leaving { owned, .. } => Some(owned),
        }
    }

    pub(super) fn owned_mut(&mut self) -> Option<&mut Owned> {
        match self {
            Self::Starting { .. } => None,
            Self::Working(owned) | Self::Leaving { owned, .. } => Some(owned),
        }
    }

    pub(super) fn into_owned(self) -> Option<Owned> {
        match self {
            Self::Starting { .. } => None,
            Self::Working(owned) | Self::Leaving { owned, .. } => Some(owned),
        }
    }

    /// Whether this is the start named `run`.
    pub(super) fn is_start(&self, of: Run) -> bool {
        matches!(self, Self::Starting { run, .. } if *run == of)
    }

    /// Whether its start is due again.
    pub(super) fn is_retry_due(&self, now: Instant) -> bool {
        matches!(self, Self::Starting { retry_at: Some(at), .. } if *at <= now)
    }

    /// Whether it was to be given up and may go.
    pub(super) fn is_done_leaving(&self, now: Instant) -> bool {
        match self {
            Self::Starting { .. } | Self::Working(_) => false,
            Self::Leaving { owned, until, .. } => {
                owned.shell.pending_outputs() == 0 || now >= *until
            }
        }
    }
}

/// A partition with its shell.
pub(super) struct Owned {
    pub(super) shell: PartitionShell,
    pub(super) run: Run,
    paused: bool,
    /// What is in the totals already.
    pub(super) counted: Counts,
}

impl Owned {
    pub(super) fn new(shell: PartitionShell, run: Run) -> Self {
        Self {
            shell,
            run,
            paused: false,
            counted: Counts::default(),
        }
    }

    /// Holds the partition back while the shell has no room, and lets it go on after that.
    pub(super) fn balance(
        &mut self,
        fetcher: &mut Fetcher,
        partition: Partition,
    ) -> Result<(), EventLogError> {
        let pause = !self.shell.wants_more();
        if pause == self.paused {
            return Ok(());
        }
        self.paused = pause;
        if pause {
            fetcher.pause(partition)
        } else {
            fetcher.resume(partition)
        }
    }
}
