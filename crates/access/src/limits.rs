//! Rate limits per caller.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use schemas::UserId;
use service_runtime::Rate;
use tokio::time::Instant;

use crate::{caller::Caller, config::LimitConfig};

/// How often idle callers are removed while the table is full.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// The rate limits of all callers.
#[derive(Debug)]
pub(crate) struct Limits {
    users: LimitConfig,
    max_callers: usize,
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    full_at: HashMap<Subject, FullAt>,
    swept: Instant,
}

/// The caller that is limited. Never an address: many users share one, and headers that name one can be forged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Subject {
    User(UserId),
    Service(String),
}

/// When the whole burst will be available again.
#[derive(Clone, Copy, Debug)]
struct FullAt {
    requests: Instant,
    events: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Requests,
    Events,
}

impl Limits {
    pub(crate) fn new(users: LimitConfig, max_callers: usize) -> Self {
        Self {
            users,
            max_callers,
            table: Mutex::new(Table {
                full_at: HashMap::new(),
                swept: Instant::now(),
            }),
        }
    }

    /// Charges `count` requests or events to a caller. If not even one fits into the burst, nothing is charged, and the error is how long to wait. If
    /// one fits, all are charged: the caller's next charge waits for those beyond the burst.
    pub(crate) fn charge(
        &self,
        caller: &Caller,
        unit: Unit,
        count: u32,
        now: Instant,
    ) -> Result<(), Duration> {
        let (subject, limits) = match caller {
            Caller::Anyone => return Ok(()),
            Caller::User(uid) => (Subject::User(*uid), self.users),
            Caller::Service(service) => match service.limits {
                None => return Ok(()),
                Some(limits) => (Subject::Service(service.id.clone()), limits),
            },
        };
        let mut table = self.table.lock();
        table.make_space(&subject, self.max_callers, now)?;
        let full_at = table.full_at.entry(subject).or_insert(FullAt {
            requests: now,
            events: now,
        });
        let full_at = match unit {
            Unit::Requests => &mut full_at.requests,
            Unit::Events => &mut full_at.events,
        };
        let rate = rate(limits, unit);
        let (_, wait) = rate.spend(*full_at, 1, now);
        if !wait.is_zero() {
            return Err(wait);
        }
        (*full_at, _) = rate.spend(*full_at, count.into(), now);
        Ok(())
    }
}

impl Table {
    /// Removes idle callers if the table is full; if it stays full, a new caller has to wait.
    fn make_space(&mut self, subject: &Subject, max: usize, now: Instant) -> Result<(), Duration> {
        if self.full_at.len() < max || self.full_at.contains_key(subject) {
            return Ok(());
        }
        if now.duration_since(self.swept) >= SWEEP_INTERVAL {
            self.full_at
                .retain(|_, full_at| full_at.requests.max(full_at.events) > now);
            self.swept = now;
        }
        if self.full_at.len() < max {
            Ok(())
        } else {
            Err(SWEEP_INTERVAL)
        }
    }
}

/// A [`LimitConfig`] gives the burst as a number of requests or events, a [`Rate`] as the time in which that many become available.
fn rate(limits: LimitConfig, unit: Unit) -> Rate {
    let (per_s, burst) = match unit {
        Unit::Requests => (limits.requests_per_s, limits.requests_burst),
        Unit::Events => (limits.events_per_s, limits.events_burst),
    };
    Rate {
        per_s,
        burst: Duration::from_secs(1) / per_s * burst,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::caller::Service;

    const RATE: LimitConfig = LimitConfig {
        requests_per_s: 2,
        requests_burst: 3,
        events_per_s: 10,
        events_burst: 5,
    };

    fn user(uid: i64) -> Caller {
        Caller::User(uid.try_into().unwrap())
    }

    fn passed(limits: &Limits, caller: &Caller, unit: Unit, now: Instant) -> usize {
        (0..100)
            .take_while(|_| limits.charge(caller, unit, 1, now).is_ok())
            .count()
    }

    #[test]
    fn each_caller_has_a_burst_and_then_a_rate() {
        let (limits, now) = (Limits::new(RATE, 100), Instant::now());
        assert_eq!(passed(&limits, &user(1), Unit::Requests, now), 3);
        assert_eq!(passed(&limits, &user(1), Unit::Events, now), 5);
        assert_eq!(passed(&limits, &user(2), Unit::Requests, now), 3);
        let wait = limits.charge(&user(1), Unit::Requests, 1, now).unwrap_err();
        assert_eq!(wait, Duration::from_millis(500));
        let later = now + wait;
        assert_eq!(passed(&limits, &user(1), Unit::Requests, later), 1);
        let much_later = later + Duration::from_secs(60);
        assert_eq!(passed(&limits, &user(1), Unit::Requests, much_later), 3);
    }

    #[test]
    fn what_is_beyond_the_burst_is_waited_for_afterwards() {
        let (limits, now) = (Limits::new(RATE, 100), Instant::now());
        let charge = |count, now| limits.charge(&user(1), Unit::Events, count, now);
        assert_eq!(charge(100, now), Ok(()));
        let wait = charge(1, now).unwrap_err();
        // The 100 and this one take 10.1 s at 10 a second, and the burst of 5 covers the last 0.5 s.
        assert_eq!(wait, Duration::from_millis(9_600));
        assert!(charge(1, now + wait - Duration::from_millis(1)).is_err());
        assert_eq!(charge(1, now + wait), Ok(()));
    }

    #[test]
    fn services_have_the_limits_of_their_entry_or_none() {
        let service = |limits| {
            Caller::Service(Arc::new(Service {
                id: "a1".to_owned(),
                name: "mailer".to_owned(),
                scopes: [].into(),
                limits,
            }))
        };
        let (limits, now) = (Limits::new(RATE, 100), Instant::now());
        assert_eq!(passed(&limits, &service(None), Unit::Requests, now), 100);
        assert_eq!(
            passed(&limits, &service(Some(RATE)), Unit::Requests, now),
            3
        );
        assert_eq!(passed(&limits, &Caller::Anyone, Unit::Events, now), 100);
    }

    #[test]
    fn the_table_is_bounded_and_idle_callers_make_space() {
        let (limits, start) = (Limits::new(RATE, 10), Instant::now());
        let len = || limits.table.lock().full_at.len();
        for uid in 1..=10 {
            assert!(limits.charge(&user(uid), Unit::Requests, 1, start).is_ok());
        }
        assert!(limits.charge(&user(11), Unit::Requests, 1, start).is_err());
        assert!(limits.charge(&user(10), Unit::Requests, 1, start).is_ok());
        let later = start + Duration::from_secs(2);
        assert!(limits.charge(&user(11), Unit::Requests, 1, later).is_ok());
        assert_eq!(len(), 1);
    }
}
