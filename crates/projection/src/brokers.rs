//! Whether the brokers answer, for people: librdkafka retries by itself for as long as it takes.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How often the same trouble is worth a line in the log.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// What is known of the brokers, by whoever had to do with them. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Brokers(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// What went wrong last, and when.
    fault: Option<(String, Instant)>,
    warned: Option<Instant>,
}

impl Brokers {
    /// Something failed that may go well later.
    pub(crate) fn failed(&self, why: String) {
        if self.note_fault(why.clone(), Instant::now()) {
            tracing::warn!(why, "the brokers cannot be read from, trying again");
        }
    }

    /// Whether it is to be logged.
    fn note_fault(&self, why: String, now: Instant) -> bool {
        let mut state = self.lock();
        state.fault = Some((why, now));
        let is_news = state
            .warned
            .is_none_or(|warned| now.duration_since(warned) >= WARN_EVERY);
        if is_news {
            state.warned = Some(now);
        }
        is_news
    }

    /// They answered what was asked at `asked`: whatever failed before that is over.
    pub(crate) fn answered(&self, asked: Instant) {
        let mut state = self.lock();
        if state.fault.as_ref().is_some_and(|(_, at)| *at <= asked) {
            state.fault = None;
        }
    }

    /// What is wrong at present.
    pub(crate) fn fault(&self) -> Option<String> {
        self.lock().fault.as_ref().map(|(why, _)| why.clone())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_lasts_until_an_answer_to_a_later_question() {
        let brokers = Brokers::default();
        let asked = Instant::now();
        let failed = asked + Duration::from_secs(1);
        brokers.note_fault("away".to_owned(), failed);
        brokers.answered(asked);
        assert_eq!(brokers.fault().as_deref(), Some("away"));
        brokers.answered(failed + Duration::from_secs(1));
        assert_eq!(brokers.fault(), None);
    }

    #[test]
    fn the_log_hears_of_it_every_so_often() {
        let brokers = Brokers::default();
        let now = Instant::now();
        let heard =
            |after: u64| brokers.note_fault("away".to_owned(), now + Duration::from_secs(after));
        assert_eq!(
            [0, 1, 9, 10, 11, 25].map(heard),
            [true, false, false, true, false, true]
        );
    }
}
