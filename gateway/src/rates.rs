//! How much devices may send, by user and in all.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use schemas::UserId;
use service_runtime::Rate;

use crate::{config::GatewayConfig, expiring_map};

/// After a pause of this length a device may send at once what it may send in that time.
const BURST: Duration = Duration::from_secs(10);
/// Half of what all may send at once is for users who send less than a tenth of their limit: the users who cause the overload are closed first.
const BURST_OF_HEAVY: Duration = Duration::from_secs(5);
const HEAVY_FRACTION: u64 = 10;

/// As how many more frames a hello or a resume counts, since what the device missed is looked up.
const BEGIN_FRAMES: u64 = 4;

/// What has been sent, by user and in all.
pub(crate) struct Rates {
    of_user: Limits,
    in_all: Limits,
    spent: Mutex<Spent>,
}

/// A user, and whether the sender is a reader for the user and not one of the user's devices: readers do not use up the devices' limit.
type Sender = (UserId, bool);

/// Whose limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TooMuch {
    OfUser,
    InAll,
}

#[derive(Clone, Copy)]
struct Limits {
    frames_per_s: u32,
    bytes_per_s: u32,
}

#[derive(Default)]
struct Spent {
    in_all: Times,
    users: HashMap<Sender, Times>,
}

/// When the whole burst is available again.
#[derive(Clone, Copy, Default)]
struct Times {
    frames: Duration,
    bytes: Duration,
    /// The same for a tenth of the limit: a user is heavy once that burst is used up.
    of_tenth: Duration,
}

impl Rates {
    pub(crate) fn new(config: &GatewayConfig) -> Self {
        let limits = |frames_per_s, bytes_per_s| Limits {
            frames_per_s,
            bytes_per_s,
        };
        Self {
            of_user: limits(config.user_frames_per_s, config.user_bytes_per_s),
            in_all: limits(config.frames_per_s, config.bytes_per_s),
            spent: Mutex::default(),
        }
    }

    /// Counts a frame that a user's devices or readers have sent.
    ///
    /// # Errors
    /// It is too much; then it is not counted.
    pub(crate) fn charge(&self, by: Sender, bytes: usize, now_us: u64) -> Result<(), TooMuch> {
        let now = Duration::from_micros(now_us);
        let mut spent = self.spent.lock();
        let of_user = spent.users.get(&by).copied().unwrap_or_default();
        let of_user = self.of_user.charge(of_user, (1, bytes), now, BURST);
        let of_user = of_user.ok_or(TooMuch::OfUser)?;
        let is_heavy = of_user.of_tenth > now + BURST;
        let burst = if is_heavy { BURST_OF_HEAVY } else { BURST };
        let in_all = self.in_all.charge(spent.in_all, (1, bytes), now, burst);
        spent.in_all = in_all.ok_or(TooMuch::InAll)?;
        let has_nothing_spent =
            |times: &Times| times.frames.max(times.bytes).max(times.of_tenth) <= now;
        expiring_map::insert(&mut spent.users, by, of_user, has_nothing_spent);
        Ok(())
    }

    /// Counts a hello or a resume of a user as several more frames.
    ///
    /// # Errors
    /// It is too much; then it is not counted.
    pub(crate) fn charge_begin(&self, by: Sender, now_us: u64) -> Result<(), TooMuch> {
        let mut spent = self.spent.lock();
        let before = spent.users.get(&by).copied().unwrap_or_default();
        let now = Duration::from_micros(now_us);
        let after = self.of_user.charge(before, (BEGIN_FRAMES, 0), now, BURST);
        spent.users.insert(by, after.ok_or(TooMuch::OfUser)?);
        Ok(())
    }
}

impl Limits {
    fn charge(
        self,
        spent: Times,
        (frames, bytes): (u64, usize),
        now: Duration,
        burst: Duration,
    ) -> Option<Times> {
        let rate = |per_s| Rate { per_s, burst };
        let (of_frames, of_bytes) = (rate(self.frames_per_s), rate(self.bytes_per_s));
        let bytes = bytes as u64;
        let after = |rate: Rate, spent, count| {
            let (spent, wait) = rate.spend(spent, count, now);
            wait.is_zero().then_some(spent)
        };
        let of_tenth =
            |rate: Rate, count| rate.spend(spent.of_tenth, HEAVY_FRACTION * count, now).0;
        let of_tenth = of_tenth(of_frames, frames).max(of_tenth(of_bytes, bytes));
        Some(Times {
            frames: after(of_frames, spent.frames, frames)?,
            bytes: after(of_bytes, spent.bytes, bytes)?,
            // Capped at what `is_heavy` needs, or a burst would be remembered for minutes.
            of_tenth: of_tenth.min(now + 2 * BURST),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates() -> Rates {
        Rates::new(&GatewayConfig {
            user_frames_per_s: 2,
            user_bytes_per_s: 1_024,
            frames_per_s: 6,
            bytes_per_s: 1_000_000,
            ..GatewayConfig::default()
        })
    }

    fn user(uid: i64) -> Sender {
        (uid.try_into().unwrap(), false)
    }

    #[test]
    fn ten_seconds_worth_at_once_and_then_as_many_as_time_passes() {
        let rates = rates();
        for _ in 0..20 {
            assert_eq!(rates.charge(user(1), 10, 0), Ok(()));
        }
        assert_eq!(rates.charge(user(1), 10, 0), Err(TooMuch::OfUser));
        assert_eq!(rates.charge(user(1), 10, 500_000), Ok(()));
        assert_eq!(rates.charge(user(1), 10, 500_000), Err(TooMuch::OfUser));
        assert_eq!(rates.charge((user(1).0, true), 10, 500_000), Ok(()));
    }

    #[test]
    fn bytes_are_limited_and_so_is_what_all_send() {
        let rates = rates();
        assert_eq!(rates.charge(user(1), 10_240, 0), Ok(()));
        assert_eq!(rates.charge(user(1), 1, 0), Err(TooMuch::OfUser));
        for uid in 2..=60 {
            assert_eq!(rates.charge(user(uid), 1, 0), Ok(()));
        }
        assert_eq!(rates.charge(user(61), 1, 0), Err(TooMuch::InAll));
    }

    /// A device that sends little goes on while others take all that there is.
    #[test]
    fn who_causes_that_all_send_too_much_is_closed_and_nobody_else() {
        let rates = Rates::new(&GatewayConfig {
            user_frames_per_s: 10,
            frames_per_s: 100,
            ..GatewayConfig::default()
        });
        let mut closed = 0;
        for now_ms in 0..20_000 {
            let now_us = now_ms * 1_000;
            for heavy in 1..=20 {
                closed += usize::from(rates.charge(user(heavy), 1, now_us).is_err());
            }
            if now_ms % 100 == 0 {
                let light = user(100 + now_ms as i64 / 100 % 20);
                assert_eq!(rates.charge(light, 1, now_us), Ok(()), "after {now_ms} ms");
            }
        }
        assert!(closed > 0);
    }

    #[test]
    fn to_begin_costs_some_frames_more() {
        let rates = rates();
        for _ in 0..5 {
            assert_eq!(rates.charge_begin(user(1), 0), Ok(()));
        }
        assert_eq!(rates.charge_begin(user(1), 0), Err(TooMuch::OfUser));
        assert_eq!(rates.charge_begin(user(2), 0), Ok(()));
    }

    #[test]
    fn who_has_spent_something_is_not_forgotten_for_others() {
        let rates = Rates::new(&GatewayConfig {
            user_frames_per_s: 1,
            frames_per_s: 1_000_000,
            ..GatewayConfig::default()
        });
        for _ in 0..10 {
            rates.charge(user(1), 1, 0).unwrap();
        }
        for uid in 2..=5_000 {
            rates.charge(user(uid), 1, 0).unwrap();
        }
        assert_eq!(rates.charge(user(1), 1, 0), Err(TooMuch::OfUser));
    }
}
