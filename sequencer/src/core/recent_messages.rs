//! The times of the messages in the recall window.

use schemas::{TimestampMs, event::Rules};

use super::chunked_queue::ChunkedQueue;

/// The longest recall window, a day, is far below the 49 days after which the low bits of a time repeat.
pub(super) const MAX_WINDOW_MS: i64 = 24 * 3600 * 1000;

/// A message of the recall window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecentMessage {
    /// The low bits of its log time.
    ts: u32,
    /// How many places back the message before it in its conversation is; 0 if that one is not in the window.
    back: u32,
}

impl RecentMessage {
    /// The size in a snapshot.
    pub(super) const BYTES: usize = 8;

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        (u64::from(self.back) << 32 | u64::from(self.ts)).to_le_bytes()
    }

    pub(super) fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let both = u64::from_le_bytes(bytes);
        Self {
            ts: both as u32,
            back: (both >> 32) as u32,
        }
    }
}

/// The messages of a partition that are within the recall window, in log order. No messages are kept if the rules say never (0) or always (-1):
/// neither needs times. A place is a message's number among those added, from 1.
#[derive(Clone, Debug)]
pub(super) struct RecentMessages {
    /// The place of the first message.
    pub(super) from: u64,
    pub(super) queue: ChunkedQueue<RecentMessage>,
}

impl Default for RecentMessages {
    fn default() -> Self {
        Self {
            from: 1,
            queue: ChunkedQueue::default(),
        }
    }
}

impl PartialEq for RecentMessages {
    fn eq(&self, other: &Self) -> bool {
        self.from == other.from && self.queue.iter().eq(other.queue.iter())
    }
}

impl RecentMessages {
    /// Adds a message and returns its place; 0 if no messages are kept. `before` is the place of the last message in its conversation.
    pub(super) fn push(&mut self, now: TimestampMs, before: u64, rules: &Rules) -> u64 {
        if rules.recall_window_ms <= 0 {
            return 0;
        }
        let place = self.from + self.queue.len() as u64;
        let back = match before {
            before if before >= self.from => u32::try_from(place - before).unwrap_or(0),
            _ => 0,
        };
        let ts = now.0 as u32;
        self.queue.push_back(RecentMessage { ts, back });
        place
    }

    /// The time of the message that is `steps` messages of its conversation before the one at `last`; `None` if it is not in the window. `clock` is
    /// the clock of the state.
    pub(super) fn time_of(&self, last: u64, steps: i64, clock: TimestampMs) -> Option<TimestampMs> {
        let mut place = last;
        for _ in 0..steps {
            match self.get(place)?.back {
                0 => return None,
                back => place -= u64::from(back),
            }
        }
        Some(full_time(*self.get(place)?, clock))
    }

    fn get(&self, place: u64) -> Option<&RecentMessage> {
        let index = place.checked_sub(self.from)?;
        self.queue.get(usize::try_from(index).ok()?)
    }

    /// Forgets the messages that leave the window when the clock goes from `clock` to `now`. Their times are computed from `clock`: all messages of
    /// the queue are within a day of `clock`, while `now` may be 49 days later, when the low bits mean another time.
    pub(super) fn evict(&mut self, clock: TimestampMs, now: TimestampMs, rules: &Rules) {
        let is_live = |message: &RecentMessage| {
            now.0.saturating_sub(full_time(*message, clock).0) <= rules.recall_window_ms
        };
        let has_window = rules.recall_window_ms > 0;
        while self
            .queue
            .front()
            .is_some_and(|first| !has_window || !is_live(first))
        {
            self.queue.pop_front();
            self.from += 1;
        }
    }
}

/// The time of a message that is at most 49 days before `clock`.
fn full_time(message: RecentMessage, clock: TimestampMs) -> TimestampMs {
    let age = (clock.0 as u32).wrapping_sub(message.ts);
    TimestampMs(clock.0.saturating_sub(age.into()))
}
