//! The generic cell rate algorithm (GCRA): it stores one time for each subject, at which the whole burst is available again.

use std::{
    ops::{Add, Sub},
    time::Duration,
};

/// `per_s` a second and, after a pause, as many at once as become available in `burst`.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// How many a second; not 0.
    pub per_s: u32,
    /// The pause after which no more becomes available.
    pub burst: Duration,
}

impl Rate {
    /// Spends `count` more. Returns when the whole burst is available again, and how long to wait until this spending is within the burst: zero if it is now.
    /// `T` is an instant, or a time since some beginning.
    #[must_use]
    pub fn spend<T>(self, spent: T, count: u64, now: T) -> (T, Duration)
    where
        T: Copy + Ord + Add<Duration, Output = T> + Sub<Output = Duration>,
    {
        let spent = spent.max(now) + Duration::from_secs(count) / self.per_s;
        (spent, (spent - now).saturating_sub(self.burst))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RATE: Rate = Rate {
        per_s: 2,
        burst: Duration::from_secs(10),
    };

    /// When everything is available again after everything that is let through, and how much that is.
    fn spend_all(rate: Rate, mut spent: Duration, now: Duration) -> (Duration, u64) {
        for count in 0.. {
            match rate.spend(spent, 1, now) {
                (then, Duration::ZERO) => spent = then,
                _ => return (spent, count),
            }
        }
        unreachable!("a burst ends")
    }

    #[test]
    fn a_burst_at_once_and_then_as_much_as_time_passes() {
        let (spent, count) = spend_all(RATE, Duration::ZERO, Duration::ZERO);
        assert_eq!((spent, count), (RATE.burst, 20));
        let (spent, count) = spend_all(RATE, spent, Duration::from_secs(3));
        assert_eq!((spent, count), (Duration::from_secs(13), 6));
        let (_, count) = spend_all(RATE, spent, Duration::from_secs(60));
        assert_eq!(count, 20);
    }

    #[test]
    fn a_burst_is_whole_where_a_second_does_not_divide_evenly() {
        for per_s in [3, 7, 11, 999, 1_000_003] {
            let burst = Duration::from_secs(5) / per_s;
            let rate = Rate { per_s, burst };
            let (_, count) = spend_all(rate, Duration::ZERO, Duration::ZERO);
            assert_eq!(count, 5, "{per_s}");
        }
    }

    proptest! {
        #[test]
        fn never_more_than_burst_and_rate_allow(
            per_s in 1..50_u32,
            burst in 1..50_u32,
            pauses_ms in proptest::collection::vec(0..300_u64, 1..200),
        ) {
            let rate = Rate { per_s, burst: Duration::from_secs(burst.into()) / per_s };
            let (mut spent, mut now, mut passed) = (Duration::ZERO, Duration::ZERO, 0);
            for pause in pauses_ms {
                now += Duration::from_millis(pause);
                match rate.spend(spent, 1, now) {
                    (then, Duration::ZERO) => (spent, passed) = (then, passed + 1),
                    // A caller that waits as long as it is told is let through.
                    (_, wait) => prop_assert_eq!(rate.spend(spent, 1, now + wait).1, Duration::ZERO),
                }
            }
            let allowed = f64::from(burst) + now.as_secs_f64() * f64::from(per_s);
            prop_assert!(f64::from(passed) <= allowed + 1e-6);
        }
    }
}
