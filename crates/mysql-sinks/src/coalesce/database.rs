//! One database of several, with a circuit breaker.

use std::time::{Duration, Instant};

use event_log::HaltedPartitions;
use message_store::{MessageStore, Shard};
use projection::ReplayError;
use schemas::{LogPosition, Partition, PartitionMap};
use tokio_util::task::AbortOnDropHandle;

use super::{MergedRow, buffer::Buffer};
use crate::{destination::Destination, metrics};

/// After this many failures in a row the circuit opens.
const MAX_FAILURES: u32 = 3;

/// The shortest and the longest time until the first probe. A database that has worked for the longest time begins again with the shortest.
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// The longest time between probes: a probe that is refused costs nothing.
const MAX_PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// Each kind has its own count of failures: a database that can be read may still refuse writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Write,
}

pub(crate) struct Database<R: MergedRow> {
    pub(crate) destination: Destination,
    circuit: Circuit<R>,
    backoff: Backoff,
    /// The partitions that could not be caught up, and why. They stay behind while the rest of the database is used.
    behind: PartitionMap<String>,
    /// When these partitions are tried again.
    retry_at: Instant,
}

/// Closed: the database is used. Open: the database is left out until it takes writes and has reached the positions of the others.
enum Circuit<R: MergedRow> {
    Closed {
        buffer: Buffer<R>,
        failed_reads: u32,
        failed_writes: u32,
    },
    Open {
        why: String,
        state: LeftOut,
    },
}

enum LeftOut {
    /// The probe ends when the database has taken a write.
    Probed(AbortOnDropHandle<()>),
    /// The database takes writes, but is far behind the others.
    Behind,
    CaughtUp,
}

impl<R: MergedRow> Circuit<R> {
    fn closed() -> Self {
        Self::Closed {
            buffer: Buffer::default(),
            failed_reads: 0,
            failed_writes: 0,
        }
    }
}

impl<R: MergedRow> Database<R> {
    pub(crate) fn new(destination: Destination) -> Self {
        Self {
            destination,
            circuit: Circuit::closed(),
            backoff: Backoff::default(),
            behind: PartitionMap::new(),
            retry_at: Instant::now(),
        }
    }

    /// The pending rows of the database; `None` while the circuit is open.
    pub(crate) fn buffer(&self) -> Option<&Buffer<R>> {
        match &self.circuit {
            Circuit::Closed { buffer, .. } => Some(buffer),
            Circuit::Open { .. } => None,
        }
    }

    pub(crate) fn buffer_mut(&mut self) -> Option<&mut Buffer<R>> {
        match &mut self.circuit {
            Circuit::Closed { buffer, .. } => Some(buffer),
            Circuit::Open { .. } => None,
        }
    }

    /// The database or its partitions that are left out, and why.
    pub(crate) fn left_out(&self) -> Option<String> {
        let number = self.number();
        if let Circuit::Open { why, .. } = &self.circuit {
            return Some(format!("database {number} ({why})"));
        }
        let (partition, why) = self.behind.iter().next()?;
        let others = match self.behind.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} others"),
        };
        Some(format!(
            "partition {partition}{others} of database {number} ({why})"
        ))
    }

    /// Whether the circuit is open and the database takes writes.
    pub(crate) fn has_recovered(&self) -> bool {
        match &self.circuit {
            Circuit::Closed { .. } => false,
            Circuit::Open { state, .. } => match state {
                LeftOut::Probed(probe) => probe.is_finished(),
                LeftOut::Behind | LeftOut::CaughtUp => true,
            },
        }
    }

    /// The partitions that are to be read for this database alone now, out of those in use.
    pub(crate) fn to_catch_up(&self, in_use: &PartitionMap<LogPosition>) -> Vec<Partition> {
        match &self.circuit {
            Circuit::Open { .. } if self.has_recovered() => in_use.partitions().collect(),
            Circuit::Closed { .. } if self.retry_at <= Instant::now() => {
                self.behind.partitions().collect()
            }
            Circuit::Open { .. } | Circuit::Closed { .. } => Vec::new(),
        }
    }

    /// Whether more of the database can be used once every partition is resumed.
    pub(crate) fn has_caught_up(&self, in_use: &PartitionMap<LogPosition>) -> bool {
        match &self.circuit {
            Circuit::Open { state, .. } => matches!(state, LeftOut::CaughtUp),
            Circuit::Closed { buffer, .. } => in_use.partitions().any(|partition| {
                buffer.offsets.stored(partition).is_none() && !self.behind.contains(partition)
            }),
        }
    }

    /// Notes that the database has caught up, except for the partitions in `behind`.
    pub(crate) fn caught_up_but_for(&mut self, behind: PartitionMap<String>) {
        if let Circuit::Open { state, .. } = &mut self.circuit {
            *state = LeftOut::CaughtUp;
        }
        for (partition, why) in behind.iter() {
            if self.behind.get(partition) != Some(why) {
                let database = self.number();
                tracing::error!(database, %partition, why, "a partition of a database stays behind");
            }
        }
        self.behind = behind;
        self.retry_at = Instant::now() + HaltedPartitions::RETRY;
    }

    pub(crate) fn catch_up_failed(&mut self, error: &ReplayError) {
        match self.circuit {
            Circuit::Open { .. } => self.open_circuit(error),
            Circuit::Closed { .. } => self.retry_at = Instant::now() + HaltedPartitions::RETRY,
        }
    }

    pub(crate) fn is_behind(&self, partition: Partition) -> bool {
        self.behind.contains(partition)
    }

    /// Leaves a partition in which this database is behind to the other databases. If no other database has the partition, it is read from this one's
    /// position.
    pub(crate) fn leave(&mut self, partition: Partition, others_have_it: bool) {
        let Some(buffer) = self.buffer_mut() else {
            return;
        };
        if others_have_it {
            buffer.forget(&[partition]);
        } else {
            self.behind.remove(partition);
        }
    }

    /// Leaves the database out although it works: it is too far behind.
    pub(crate) fn leave_behind(&mut self, records: i64) {
        let why = format!("it is {records} records behind the others, and is being caught up");
        tracing::warn!(database = self.number(), why, "going on without a database");
        metrics::circuit_open(self.destination.shard, true);
        self.circuit = Circuit::Open {
            why,
            state: LeftOut::Behind,
        };
    }

    pub(crate) fn read_succeeded(&mut self) {
        if let Circuit::Closed { failed_reads, .. } = &mut self.circuit {
            *failed_reads = 0;
        }
    }

    /// Notes that the database has taken what was pending.
    pub(crate) fn write_succeeded(&mut self) {
        if let Circuit::Closed {
            buffer,
            failed_writes,
            ..
        } = &mut self.circuit
        {
            *failed_writes = 0;
            if buffer.committed() {
                self.backoff.last_success = Some(Instant::now());
            }
        }
    }

    /// Counts a failure. Returns whether the circuit has to open.
    pub(crate) fn record_failure(&mut self, operation: Operation) -> bool {
        let Circuit::Closed {
            failed_reads,
            failed_writes,
            ..
        } = &mut self.circuit
        else {
            return false;
        };
        let failures = match operation {
            Operation::Read => failed_reads,
            Operation::Write => failed_writes,
        };
        *failures += 1;
        *failures >= MAX_FAILURES
    }

    /// Leaves the database out. What is pending for it is dropped: the log has it.
    pub(crate) fn open_circuit(&mut self, why: &dyn std::fmt::Display) {
        let backoff = self.backoff.next_delay();
        let Destination {
            store, shard, sink, ..
        } = &self.destination;
        tracing::warn!(
            database = shard.get(), sink = sink.name(), %why, ?backoff,
            "circuit opened: going on without a database"
        );
        metrics::circuit_open(*shard, true);
        let probe = probe(store.clone(), *shard, backoff);
        self.circuit = Circuit::Open {
            why: why.to_string(),
            state: LeftOut::Probed(AbortOnDropHandle::new(tokio::spawn(probe))),
        };
    }

    /// Uses the database again. Its offsets are not known, so every partition has to be resumed.
    pub(crate) fn close_circuit(&mut self) {
        self.circuit = Circuit::closed();
        self.backoff.closed(Instant::now());
        metrics::circuit_open(self.destination.shard, false);
    }

    pub(crate) fn forget(&mut self, partitions: &[Partition]) {
        if let Some(buffer) = self.buffer_mut() {
            buffer.forget(partitions);
        }
        self.behind
            .retain(|partition, _| !partitions.contains(&partition));
    }

    pub(crate) fn number(&self) -> u8 {
        self.destination.shard.get()
    }

    #[cfg(test)]
    pub(crate) fn open_and_catch_up(&mut self) {
        self.circuit = Circuit::Open {
            why: "a test".to_owned(),
            state: LeftOut::CaughtUp,
        };
    }
}

/// Returns once the database has taken a write: a database that can only be read is of no use.
async fn probe(store: MessageStore, shard: Shard, first_delay: Duration) {
    let mut delay = first_delay;
    loop {
        tokio::time::sleep(delay).await;
        match store.probe_write(shard).await {
            Ok(()) => return,
            Err(error) => tracing::debug!(database = shard.get(), %error, "probe failed"),
        }
        delay = (delay * 2).min(MAX_PROBE_INTERVAL);
    }
}

/// How long a database is left out until the first probe. A database that takes a probe and then fails again must not delay, each time, the others
/// that are to be caught up.
#[derive(Debug, Default)]
struct Backoff {
    last_delay: Option<Duration>,
    closed_at: Option<Instant>,
    /// The last success since `closed_at`.
    last_success: Option<Instant>,
}

impl Backoff {
    fn closed(&mut self, now: Instant) {
        self.closed_at = Some(now);
        self.last_success = None;
    }

    fn next_delay(&mut self) -> Duration {
        let worked_for = match (self.closed_at, self.last_success) {
            (Some(from), Some(to)) => to.duration_since(from),
            _ => Duration::ZERO,
        };
        let delay = match self.last_delay {
            Some(last) if worked_for < MAX_BACKOFF => (last * 2).min(MAX_BACKOFF),
            _ => MIN_BACKOFF,
        };
        self.last_delay = Some(delay);
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backoff_grows_while_a_database_keeps_failing() {
        let mut backoff = Backoff::default();
        let mut now = Instant::now();
        let mut delays = Vec::new();
        for _ in 0..8 {
            delays.push(backoff.next_delay().as_secs());
            backoff.closed(now);
            now += Duration::from_secs(1);
            backoff.last_success = Some(now);
        }
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 60, 60]);
        backoff.last_success = Some(now + MAX_BACKOFF);
        assert_eq!(backoff.next_delay(), MIN_BACKOFF);
    }
}
