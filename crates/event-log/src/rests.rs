//! A thread that gives way to others, and the rests of its scans.
//!
//! A thread under `SCHED_IDLE` leaves the processors to all others that want them, but the brokers that it reads from and the stores that get its records do
//! not. If the thread had to wait for a processor, others want the processors: the thread then rests, and these servers rest with it.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

/// A thread works this long between two rests: a user's request has to wait no longer.
const WORK: Duration = Duration::from_millis(10);
const LONGEST_REST: Duration = Duration::from_millis(200);
const SHORTEST_REST: Duration = Duration::from_millis(5);

/// Gives this thread, and the threads that it makes from now on, what others leave of the processors: a thread of others that wakes runs at once. Scans of
/// [`LogReader`](crate::LogReader) by these threads rest while others want the processors. If the system refuses, the usual policy stays.
pub fn give_way() {
    const THIS_THREAD: libc::pid_t = 0;
    let priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call reads the struct and keeps nothing.
    unsafe { libc::sched_setscheduler(THIS_THREAD, libc::SCHED_IDLE, &raw const priority) };
}

/// The rests of one scan.
pub(crate) struct Rests {
    since: Instant,
    before: Scheduled,
    rest: Duration,
}

/// How long a thread ran, and how long it waited for a processor, nanoseconds.
#[derive(Clone, Copy)]
struct Scheduled {
    ran: u64,
    waited: u64,
}

impl Rests {
    /// `None` unless this thread is under `SCHED_IDLE` and the system counts its waits.
    pub(crate) fn of_this_thread() -> Option<Self> {
        // SAFETY: the call takes no memory; 0 is this thread.
        let policy = unsafe { libc::sched_getscheduler(0) };
        if policy != libc::SCHED_IDLE {
            return None;
        }
        Some(Self {
            since: Instant::now(),
            before: Scheduled::of_this_thread()?,
            rest: Duration::ZERO,
        })
    }

    /// Rests if it is time to.
    pub(crate) fn after_record(&mut self) {
        if self.since.elapsed() < WORK {
            return;
        }
        if let Some(now) = Scheduled::of_this_thread() {
            self.rest = next_rest(self.rest, self.before, now);
            self.before = now;
        }
        thread::sleep(self.rest);
        self.since = Instant::now();
    }
}

impl Scheduled {
    fn of_this_thread() -> Option<Self> {
        let counts = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        let mut counts = counts.split_whitespace().map(str::parse);
        Some(Self {
            ran: counts.next()?.ok()?,
            waited: counts.next()?.ok()?,
        })
    }
}

/// Twice as long as before if the thread waited for more than a tenth of the time in which it could have run, otherwise half as long.
fn next_rest(rest: Duration, before: Scheduled, now: Scheduled) -> Duration {
    let ran = now.ran.saturating_sub(before.ran);
    let waited = now.waited.saturating_sub(before.waited);
    if waited * 10 > ran + waited {
        return (rest * 2).clamp(SHORTEST_REST, LONGEST_REST);
    }
    let half = rest / 2;
    if half < SHORTEST_REST {
        return Duration::ZERO;
    }
    half
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Scheduled = Scheduled { ran: 0, waited: 0 };

    #[test]
    fn rests_last_longer_while_others_want_the_processors_and_end_afterwards() {
        let (free, wanted) = (
            Scheduled { ran: 9, waited: 1 },
            Scheduled { ran: 8, waited: 1 },
        );
        assert_eq!(next_rest(Duration::ZERO, START, free), Duration::ZERO);
        let mut rest = Duration::ZERO;
        for expected in [5, 10, 20, 40, 80, 160, 200, 200] {
            rest = next_rest(rest, START, wanted);
            assert_eq!(rest, Duration::from_millis(expected));
        }
        for expected in [100.0, 50.0, 25.0, 12.5, 6.25, 0.0] {
            rest = next_rest(rest, START, free);
            assert_eq!(rest, Duration::from_secs_f64(expected / 1e3));
        }
    }

    #[test]
    fn only_a_thread_that_gives_way_rests() {
        assert!(Rests::of_this_thread().is_none());
        thread::spawn(|| {
            give_way();
            assert!(Rests::of_this_thread().is_some());
        })
        .join()
        .unwrap();
    }
}
