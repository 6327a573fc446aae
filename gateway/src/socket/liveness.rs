//! Whether a device still answers, and what it has handled.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

/// After this many events without a ping, a device gets a ping as soon as nothing waits for it: a token after a burst.
const BURST: usize = 100;
/// How many answer times a device that has to sync may take for it: two minutes by default.
const SYNC_ANSWERS: u32 = 15;

/// Pings and their answers: one ping at a time is under way.
pub(super) struct Liveness {
    interval: Duration,
    answer_time: Duration,
    next_ping: Instant,
    ping: Ping,
    /// Until when the device has to resume, if it was told to sync.
    resume_by: Option<Instant>,
    events: usize,
}

enum Ping {
    None,
    /// To be written after what waits for the connection.
    Queued,
    /// Written with this token; the answer is due at this time.
    Unanswered(Option<Arc<str>>, Instant),
}

impl Liveness {
    pub(super) fn new(interval: Duration, answer_time: Duration, now: Instant) -> Self {
        Self {
            interval,
            answer_time,
            next_ping: now + interval,
            ping: Ping::None,
            resume_by: None,
            events: 0,
        }
    }

    /// When the next ping is due.
    pub(super) fn next_ping(&self) -> Instant {
        self.next_ping
    }

    /// When the device has to have answered, if a ping is unanswered or it has to sync.
    pub(super) fn answer_by(&self) -> Option<Instant> {
        let pong_by = match self.ping {
            Ping::Unanswered(_, by) => Some(by),
            Ping::None | Ping::Queued => None,
        };
        pong_by.into_iter().chain(self.resume_by).min()
    }

    /// The device was told to sync.
    pub(super) fn sync_required(&mut self, now: Instant) {
        self.resume_by = Some(now + SYNC_ANSWERS * self.answer_time);
    }

    /// The device has its stream.
    pub(super) fn welcomed(&mut self) {
        self.resume_by = None;
    }

    /// Whether to ping now.
    pub(super) fn begin_ping(&mut self, now: Instant) -> bool {
        self.next_ping = now + self.interval;
        let begins = matches!(self.ping, Ping::None);
        if begins {
            self.ping = Ping::Queued;
        }
        begins
    }

    /// An event was written.
    pub(super) fn event_written(&mut self) {
        self.events += 1;
    }

    /// Called when nothing waits for the device: whether it has just got a burst.
    pub(super) fn is_behind_a_burst(&self) -> bool {
        self.events >= BURST
    }

    /// A ping was written; without a token if the device has no stream.
    pub(super) fn ping_written(&mut self, token: Option<Arc<str>>, now: Instant) {
        self.events = 0;
        self.ping = Ping::Unanswered(token, now + self.answer_time);
    }

    /// The device answers a ping. Returns the ping's token: the device has handled what it covers. An answer without a ping says nothing.
    pub(super) fn pong(&mut self) -> Option<Arc<str>> {
        match std::mem::replace(&mut self.ping, Ping::None) {
            Ping::Unanswered(token, _) => token,
            other => {
                self.ping = other;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pong_acknowledges_the_ping_that_was_written() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let mut liveness = Liveness::new(25 * second, 8 * second, now);
        assert_eq!(liveness.pong(), None);
        assert!(liveness.begin_ping(now));
        // A pong that comes before the ping was written does not answer it.
        assert_eq!((liveness.pong(), liveness.answer_by()), (None, None));
        assert!(!liveness.begin_ping(now), "one is under way");
        liveness.ping_written(Some("a".into()), now + second);
        assert_eq!(liveness.answer_by(), Some(now + 9 * second));
        assert_eq!(liveness.pong(), Some("a".into()));
        assert_eq!((liveness.pong(), liveness.answer_by()), (None, None));
        assert_eq!(liveness.next_ping(), now + 25 * second);
        assert!(liveness.begin_ping(now));
    }

    #[test]
    fn who_has_to_sync_has_two_minutes_to_resume() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let mut liveness = Liveness::new(25 * second, 8 * second, now);
        liveness.sync_required(now);
        assert_eq!(liveness.answer_by(), Some(now + 120 * second));
        liveness.ping_written(None, now + second);
        assert_eq!(liveness.answer_by(), Some(now + 9 * second));
        liveness.pong();
        assert_eq!(liveness.answer_by(), Some(now + 120 * second));
        liveness.welcomed();
        assert_eq!(liveness.answer_by(), None);
    }
}
