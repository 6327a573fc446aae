//! How a fetcher asks the brokers.

use std::time::{Duration, Instant};

use crate::fetcher::LONG_POLL;

/// A way to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asking {
    /// The broker answers as soon as there is a record: at once, and with one answer for each.
    LongPolls,
    /// The broker answers once an interval, with all records of it.
    Intervals,
}

/// Chooses the way that takes fewer answers. An answer costs broker and client some 0.3 ms, however few records it has, since a request of librdkafka
/// names all partitions (it has no fetch sessions): few records are cheaper by long polls, many by intervals.
#[derive(Debug)]
pub(crate) struct Pace {
    asking: Asking,
    window: Duration,
    window_began: Instant,
    /// How many answers intervals take in a window.
    answers_of_intervals: u32,
    /// What came in this window: answers while asking by long polls, records while asking at intervals.
    seen: u32,
}

/// A window lasts at least this long, and at least `WINDOW_INTERVALS` intervals. By its end every long poll that began before it has its answer, and holds up
/// no partition.
const SHORTEST_WINDOW: Duration = LONG_POLL;
const WINDOW_INTERVALS: u32 = 8;

impl Pace {
    /// Begins with intervals.
    pub(crate) fn new(interval: Duration, now: Instant) -> Self {
        let window = (interval * WINDOW_INTERVALS).max(SHORTEST_WINDOW);
        Self {
            asking: Asking::Intervals,
            window,
            window_began: now,
            answers_of_intervals: (window.as_micros() / interval.as_micros().max(1)) as u32,
            seen: 0,
        }
    }

    pub(crate) fn asking(&self) -> Asking {
        self.asking
    }

    /// Asks at intervals from now on, for a window at least.
    pub(crate) fn hurry(&mut self, now: Instant) {
        self.change(Asking::Intervals, now);
    }

    /// Counts a record. `has_waited`: the fetcher had no other, so the record is the first of an answer.
    pub(crate) fn took(&mut self, has_waited: bool) {
        if has_waited || self.asking == Asking::Intervals {
            self.seen = self.seen.saturating_add(1);
        }
    }

    /// Chooses again, before the fetcher waits. Returns whether a window is over.
    pub(crate) fn choose(&mut self, now: Instant) -> bool {
        let is_over = now.duration_since(self.window_began) >= self.window;
        match self.asking {
            Asking::LongPolls if self.seen > self.answers_of_intervals => {
                self.change(Asking::Intervals, now);
            }
            // Long polls would take one answer for each record at most. Only half as many are allowed, so that the way does not change to and fro.
            Asking::Intervals if is_over && self.seen < self.answers_of_intervals / 2 => {
                self.change(Asking::LongPolls, now);
            }
            asking if is_over => self.change(asking, now),
            _ => {}
        }
        is_over
    }

    fn change(&mut self, asking: Asking, now: Instant) {
        self.asking = asking;
        self.window_began = now;
        self.seen = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(4);

    /// What is asked after `seconds` with as many records a second, each an answer of its own by long polls.
    fn after(pace: &mut Pace, now: &mut Instant, rate: u32, seconds: u32) -> Asking {
        for _ in 0..rate * seconds {
            *now += Duration::from_secs(1) / rate;
            pace.choose(*now);
            pace.took(true);
        }
        pace.asking()
    }

    #[test]
    fn few_records_are_read_by_long_polls_and_many_at_intervals() {
        let mut now = Instant::now();
        let mut pace = Pace::new(INTERVAL, now);
        assert_eq!(pace.asking(), Asking::Intervals);
        for (rate, asking) in [
            (1, Asking::LongPolls),
            (100, Asking::LongPolls),
            (1_000, Asking::Intervals),
            (200, Asking::Intervals),
            (100, Asking::LongPolls),
            (200, Asking::LongPolls),
            (100_000, Asking::Intervals),
            (1, Asking::LongPolls),
        ] {
            assert_eq!(after(&mut pace, &mut now, rate, 2), asking, "{rate}");
        }
    }

    #[test]
    fn a_batch_is_one_answer() {
        let mut now = Instant::now();
        let mut pace = Pace::new(INTERVAL, now);
        after(&mut pace, &mut now, 1, 2);
        for _ in 0..5 {
            now += Duration::from_millis(20);
            pace.choose(now);
            pace.took(true);
            for _ in 0..500 {
                pace.took(false);
            }
        }
        assert_eq!(pace.asking(), Asking::LongPolls);
    }

    #[test]
    fn a_long_interval_is_kept_where_records_are_rare() {
        let mut now = Instant::now();
        let mut pace = Pace::new(Duration::from_millis(250), now);
        assert_eq!(after(&mut pace, &mut now, 10, 10), Asking::Intervals);
        assert_eq!(after(&mut pace, &mut now, 1, 10), Asking::LongPolls);
    }
}
