//! One partition in this process's hands.

use event_log::{Fetcher, KafkaFault, Record, Released};
use schemas::Partition;
use std::{sync::Arc, time::Instant};

use super::effects::Run;
use crate::shell::{Counts, InboundRecord, PartitionShell};

/// A partition that is worked on.
pub(super) struct Owned {
    pub(super) shell: PartitionShell,
    pub(super) run: Run,
    paused: bool,
    /// What is in the totals already.
    pub(super) counted: Counts,
}

/// A partition that is being given up: no more is read, and it is let go once nothing is in flight, so that the next
/// owner's start sees all of it. Exactness does not depend on that (PROTOCOL S11).
pub(super) struct Leaving {
    pub(super) until: Instant,
    #[expect(dead_code, reason = "its drop is the message")]
    pub(super) barrier: Arc<Released>,
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
        fetcher: &Fetcher,
        partition: Partition,
    ) -> Result<(), KafkaFault> {
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

/// A record of `chat.inbound` as shells take it.
pub(super) fn inbound(record: Record) -> InboundRecord {
    InboundRecord {
        offset: record.offset,
        ts: record.timestamp,
        leader_epoch: record.leader_epoch,
        key: record.key.map(Into::into),
        value: record.value.map(Into::into),
        headers: record
            .headers
            .into_iter()
            .map(|(name, value)| (name, value.map(Into::into)))
            .collect(),
    }
}
