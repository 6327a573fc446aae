//! Whether a device still answers, and what it has handled.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

/// Events without a ping, behind which a device that has nothing left to read gets one: a token after a burst.
const BURST: usize = 100;

/// Pings and their answers: one ping at a time is under way.
pub(super) struct Liveness {
    interval: Duration,
    answer_time: Duration,
    next_ping: Instant,
    ping: Ping,
    events: usize,
}

enum Ping {
    None,
    /// Behind what waits for the connection.
    Queued,
    /// Written, with this token.
    Unanswered(Option<Arc<str>>, Instant),
}

impl Liveness {
    pub(super) fn new(interval: Duration, answer_time: Duration, now: Instant) -> Self {
        Self {
            interval,
            answer_time,
            next_ping: now + interval,
            ping: Ping::None,
            events: 0,
        }
    }

    /// When the next ping is due.
    pub(super) fn next_ping(&self) -> Instant {
        self.next_ping
    }

    /// When the device has to have answered, if a ping is unanswered.
    pub(super) fn answer_by(&self) -> Option<Instant> {
        match self.ping {
            Ping::Unanswered(_, by) => Some(by),
            Ping::None | Ping::Queued => None,
        }
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

    /// Nothing waits: whether there was a burst.
    pub(super) fn is_behind_a_burst(&self) -> bool {
        self.events >= BURST
    }

    /// A ping was written. Without a token for a device without a stream.
    pub(super) fn ping_written(&mut self, token: Option<Arc<str>>, now: Instant) {
        self.events = 0;
        self.ping = Ping::Unanswered(token, now + self.answer_time);
    }

    /// The device answers: the token of the ping, which it has handled. An answer without a ping says nothing.
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
        // A pong that comes before the ping was written is none of it.
        assert_eq!((liveness.pong(), liveness.answer_by()), (None, None));
        assert!(!liveness.begin_ping(now), "one is under way");
        liveness.ping_written(Some("a".into()), now + second);
        assert_eq!(liveness.answer_by(), Some(now + 9 * second));
        assert_eq!(liveness.pong(), Some("a".into()));
        assert_eq!((liveness.pong(), liveness.answer_by()), (None, None));
        assert_eq!(liveness.next_ping(), now + 25 * second);
        assert!(liveness.begin_ping(now));
    }
}
