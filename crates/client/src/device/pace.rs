//! How fast a device writes: a gateway closes the connection of one that is faster than it allows.

use std::time::Duration;

use tokio::time::Instant;

/// A gateway takes ten seconds' worth at once. Half of that is left to the user's other devices, and to what this device wrote before its program was started
/// again.
const BURST: Duration = Duration::from_secs(5);

/// What a gateway allows: frames and bytes a second. A rate that it does not tell is 0, and stays as it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    pub(super) frames_per_s: u32,
    pub(super) bytes_per_s: u32,
}

/// What was written, and what may be.
#[derive(Debug)]
pub(super) struct Pace {
    frames: Budget,
    bytes: Budget,
}

impl Default for Pace {
    /// For a gateway that does not tell its rates.
    fn default() -> Self {
        Self {
            frames: Budget::new(50),
            bytes: Budget::new(256 << 10),
        }
    }
}

impl Pace {
    pub(super) fn set(&mut self, rates: Rates) {
        self.frames.set(rates.frames_per_s);
        self.bytes.set(rates.bytes_per_s);
    }

    /// When a frame of `bytes` may be written; `now` at the earliest.
    pub(super) fn free_at(&self, bytes: usize, now: Instant) -> Instant {
        let frames = self.frames.free_at(1, now);
        frames.max(self.bytes.free_at(bytes, now))
    }

    /// A frame of `bytes` is written.
    pub(super) fn spend(&mut self, bytes: usize, now: Instant) {
        self.frames.spend(1, now);
        self.bytes.spend(bytes, now);
    }

    /// The gateway has said that it was too much: nothing may be written at once.
    pub(super) fn exhaust(&mut self, now: Instant) {
        self.frames.exhaust(now);
        self.bytes.exhaust(now);
    }
}

/// `per_s` a second, and five seconds' worth of them at once.
#[derive(Debug)]
struct Budget {
    per_s: u32,
    /// When the whole burst is available again.
    whole_at: Option<Instant>,
}

impl Budget {
    fn new(per_s: u32) -> Self {
        let whole_at = None;
        Self { per_s, whole_at }
    }

    fn set(&mut self, per_s: u32) {
        if per_s > 0 {
            self.per_s = per_s;
        }
    }

    /// An amount above the whole burst waits for all of it.
    fn free_at(&self, amount: usize, now: Instant) -> Instant {
        let whole_at = self.whole_at(now);
        let after = whole_at + self.cost(amount);
        let free_at = after.checked_sub(BURST).unwrap_or(now);
        free_at.clamp(now, whole_at)
    }

    fn spend(&mut self, amount: usize, now: Instant) {
        self.whole_at = Some(self.whole_at(now) + self.cost(amount));
    }

    fn exhaust(&mut self, now: Instant) {
        self.whole_at = Some(self.whole_at(now).max(now + BURST));
    }

    fn whole_at(&self, now: Instant) -> Instant {
        self.whole_at.map_or(now, |at| at.max(now))
    }

    fn cost(&self, amount: usize) -> Duration {
        let amount = u32::try_from(amount).unwrap_or(u32::MAX);
        Duration::from_secs(amount.into()) / self.per_s
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    /// What the device in TypeScript does, too.
    #[derive(Deserialize)]
    struct Table {
        rates: Allowed,
        burst_ms: u64,
    }

    #[derive(Deserialize)]
    struct Allowed {
        frames_per_s: usize,
        bytes_per_s: usize,
    }

    fn table() -> Table {
        let table = include_str!("../../../../tests/device-vectors/connection.json");
        serde_json::from_str(table).unwrap()
    }

    /// Writes `count` frames of `bytes`, each as soon as it may be. Returns after how many milliseconds.
    fn times(pace: &mut Pace, count: usize, bytes: usize) -> Vec<u128> {
        let begun = Instant::now();
        let mut now = begun;
        let mut write = || {
            now = pace.free_at(bytes, now);
            pace.spend(bytes, now);
            (now - begun).as_millis()
        };
        (0..count).map(|_| write()).collect()
    }

    #[test]
    fn frames_and_bytes_keep_to_what_a_gateway_allows_that_does_not_say() {
        let Table { rates, burst_ms } = table();
        let at_once = rates.frames_per_s * usize::try_from(burst_ms).unwrap() / 1_000;
        let at = times(&mut Pace::default(), at_once + 2 * rates.frames_per_s, 1);
        assert_eq!((at[at_once - 1], at.last()), (0, Some(&2_000)));
        let at = times(&mut Pace::default(), 70, rates.bytes_per_s / 10);
        let last = at.last().copied().unwrap();
        assert!(last.abs_diff((7_000 - burst_ms).into()) <= 1, "{last}");
    }

    #[test]
    fn a_gateway_says_what_it_allows_and_what_it_does_not_say_stays() {
        let mut pace = Pace::default();
        pace.set(Rates {
            frames_per_s: 1,
            bytes_per_s: 0,
        });
        pace.set(Rates {
            frames_per_s: 0,
            bytes_per_s: 1_000,
        });
        pace.set(Rates::default());
        let expected = [0, 0, 0, 0, 0, 1_000, 2_000];
        assert_eq!(times(&mut pace, 7, 100), expected);
    }

    #[test]
    fn a_frame_of_more_than_may_be_written_at_once_waits_for_nothing_but_that() {
        let mut pace = Pace::default();
        pace.set(Rates {
            frames_per_s: 0,
            bytes_per_s: 1_000,
        });
        assert_eq!(times(&mut pace, 2, 20_000), [0, 20_000]);
    }

    #[test]
    fn who_was_too_fast_writes_nothing_at_once() {
        let mut pace = Pace::default();
        let now = Instant::now();
        pace.exhaust(now);
        assert_eq!(pace.free_at(1, now), now + Duration::from_millis(20));
    }
}
