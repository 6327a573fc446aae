//! One database of several: in use, or set aside until it takes writes again.

use std::time::{Duration, Instant};

use projection::SinkError;
use schemas::Partition;
use tokio_util::task::AbortOnDropHandle;

use super::{MergedRow, target::Target};
use crate::{ledger::Place, metrics};

/// After so many failures in a row the others go on without a database.
const PATIENCE: u32 = 3;

/// How long a database is left alone at least once it was set aside.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// And at most, however often it failed again. One that works for so long is as good as new.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often one that refuses is asked again: that costs nobody anything.
const KNOCK_EVERY: Duration = Duration::from_secs(5);

/// What was tried with a database. Each has its own count: one that can be read may still refuse to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Read,
    Write,
}

pub(crate) struct Database<R: MergedRow> {
    pub(crate) place: Place,
    state: State<R>,
    relapses: Relapses,
}

enum State<R: MergedRow> {
    InUse {
        target: Target<R>,
        failed_reads: u32,
        failed_writes: u32,
    },
    Aside {
        why: String,
        /// Ends when the database has taken a write.
        knock: AbortOnDropHandle<()>,
    },
}

impl<R: MergedRow> State<R> {
    fn in_use() -> Self {
        Self::InUse {
            target: Target::default(),
            failed_reads: 0,
            failed_writes: 0,
        }
    }
}

impl<R: MergedRow> Database<R> {
    pub(crate) fn new(place: Place) -> Self {
        metrics::set_aside(place.shard, false);
        Self {
            place,
            state: State::in_use(),
            relapses: Relapses::default(),
        }
    }

    /// What is held for it, if it is in use.
    pub(crate) fn target(&self) -> Option<&Target<R>> {
        match &self.state {
            State::InUse { target, .. } => Some(target),
            State::Aside { .. } => None,
        }
    }

    pub(crate) fn target_mut(&mut self) -> Option<&mut Target<R>> {
        match &mut self.state {
            State::InUse { target, .. } => Some(target),
            State::Aside { .. } => None,
        }
    }

    /// Which database others go on without, and why.
    pub(crate) fn left_out(&self) -> Option<String> {
        match &self.state {
            State::InUse { .. } => None,
            State::Aside { why, .. } => Some(format!("database {} ({why})", self.number())),
        }
    }

    /// Whether it was set aside and has taken a write since.
    pub(crate) fn is_back(&self) -> bool {
        matches!(&self.state, State::Aside { knock, .. } if knock.is_finished())
    }

    pub(crate) fn has_read(&mut self) {
        if let State::InUse { failed_reads, .. } = &mut self.state {
            *failed_reads = 0;
        }
    }

    /// It has taken what was held for it.
    pub(crate) fn has_written(&mut self) {
        if let State::InUse {
            target,
            failed_writes,
            ..
        } = &mut self.state
        {
            *failed_writes = 0;
            if target.written() {
                self.relapses.worked(Instant::now());
            }
        }
    }

    /// Counts a failure; whether it is one too many.
    pub(crate) fn has_failed(&mut self, deed: Deed) -> bool {
        let State::InUse {
            failed_reads,
            failed_writes,
            ..
        } = &mut self.state
        else {
            return false;
        };
        let failures = match deed {
            Deed::Read => failed_reads,
            Deed::Write => failed_writes,
        };
        *failures += 1;
        *failures >= PATIENCE
    }

    /// Lets the others go on without it. What is held for it is dropped: the log has it.
    pub(crate) fn set_aside(&mut self, why: &SinkError) {
        let pause = self.relapses.next_pause();
        tracing::warn!(
            database = self.number(), sink = self.place.sink.name(), %why, ?pause,
            "going on without a database"
        );
        metrics::set_aside(self.place.shard, true);
        self.state = State::Aside {
            why: why.to_string(),
            knock: AbortOnDropHandle::new(tokio::spawn(knock(self.place.clone(), pause))),
        };
    }

    /// Uses it again. Nothing is known of where it stands, so everything is to be resumed.
    pub(crate) fn readmit(&mut self) {
        self.state = State::in_use();
        self.relapses.readmitted(Instant::now());
        metrics::set_aside(self.place.shard, false);
    }

    pub(crate) fn forget(&mut self, partitions: &[Partition]) {
        if let Some(target) = self.target_mut() {
            target.forget(partitions);
        }
    }

    pub(crate) fn number(&self) -> u8 {
        self.place.shard.get()
    }

    #[cfg(test)]
    pub(crate) fn set_aside_and_back(&mut self) {
        self.state = State::Aside {
            why: "a test".to_owned(),
            knock: AbortOnDropHandle::new(tokio::spawn(async {})),
        };
    }
}

/// Returns once the database has taken a write: one that can only be read would be readmitted for nothing.
async fn knock(place: Place, first_pause: Duration) {
    let mut pause = first_pause;
    loop {
        tokio::time::sleep(pause).await;
        match place.store.probe_write(place.shard).await {
            Ok(()) => return,
            Err(error) => tracing::debug!(database = place.shard.get(), %error, "still aside"),
        }
        pause = (pause * 2).min(KNOCK_EVERY);
    }
}

/// How a database did since it was last readmitted. A readmission takes all others back to where this one stands, so one that
/// takes a knock and then fails must not come back at every turn.
#[derive(Debug, Default)]
struct Relapses {
    last_pause: Option<Duration>,
    readmitted: Option<Instant>,
    /// When it last took something since then.
    worked: Option<Instant>,
}

impl Relapses {
    fn readmitted(&mut self, now: Instant) {
        self.readmitted = Some(now);
        self.worked = None;
    }

    fn worked(&mut self, now: Instant) {
        self.worked = Some(now);
    }

    /// For how long to leave it alone now.
    fn next_pause(&mut self) -> Duration {
        let worked_for = match (self.readmitted, self.worked) {
            (Some(from), Some(to)) => to.duration_since(from),
            _ => Duration::ZERO,
        };
        let pause = match self.last_pause {
            Some(last) if worked_for < LONGEST_PAUSE => (last * 2).min(LONGEST_PAUSE),
            _ => FIRST_PAUSE,
        };
        self.last_pause = Some(pause);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_keeps_failing_is_left_alone_for_longer() {
        let mut relapses = Relapses::default();
        let mut now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            pauses.push(relapses.next_pause().as_secs());
            relapses.readmitted(now);
            now += Duration::from_secs(1);
            relapses.worked(now);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        relapses.worked(now + LONGEST_PAUSE);
        assert_eq!(relapses.next_pause(), FIRST_PAUSE);
    }
}
