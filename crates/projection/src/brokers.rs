//! Whether the brokers answer, for operators: librdkafka retries by itself for as long as it takes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// How often a fault that lasts is logged.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// The last fault that any component met with the brokers. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Brokers(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The last fault, and when it was met.
    fault: Option<(String, Instant)>,
    warned: Option<Instant>,
}

impl Brokers {
    /// A call to the brokers failed that may succeed later.
    pub(crate) fn failed(&self, why: String) {
        if self.record_fault(why.clone(), Instant::now()) {
            tracing::warn!(why, "the brokers cannot be read from, retrying");
        }
    }

    /// Returns whether to log it.
    fn record_fault(&self, why: String, now: Instant) -> bool {
        let mut state = self.0.lock();
        state.fault = Some((why, now));
        let is_due = state
            .warned
            .is_none_or(|warned| now.duration_since(warned) >= WARN_EVERY);
        if is_due {
            state.warned = Some(now);
        }
        is_due
    }

    /// The brokers answered a request that was sent at `asked`: earlier faults are over.
    pub(crate) fn answered(&self, asked: Instant) {
        let mut state = self.0.lock();
        if state.fault.as_ref().is_some_and(|(_, at)| *at <= asked) {
            state.fault = None;
        }
    }

    pub(crate) fn fault(&self) -> Option<String> {
        self.0.lock().fault.as_ref().map(|(why, _)| why.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_lasts_until_a_later_request_is_answered() {
        let brokers = Brokers::default();
        let asked = Instant::now();
        let failed = asked + Duration::from_secs(1);
        brokers.record_fault("unavailable".to_owned(), failed);
        brokers.answered(asked);
        assert_eq!(brokers.fault().as_deref(), Some("unavailable"));
        brokers.answered(failed + Duration::from_secs(1));
        assert_eq!(brokers.fault(), None);
    }

    #[test]
    fn a_lasting_fault_is_logged_every_ten_seconds() {
        let brokers = Brokers::default();
        let now = Instant::now();
        let logged = |after: u64| {
            brokers.record_fault("unavailable".to_owned(), now + Duration::from_secs(after))
        };
        assert_eq!(
            [0, 1, 9, 10, 11, 25].map(logged),
            [true, false, false, true, false, true]
        );
    }
}
