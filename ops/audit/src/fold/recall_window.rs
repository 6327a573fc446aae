use std::collections::VecDeque;

use schemas::event::Rules;

/// The times of the partition's messages that have been within the recall window ever since, in log order (PROTOCOL C). 16 bytes per message. A place
/// is a message's number among those added, from 1.
#[derive(Debug, Default)]
pub(crate) struct RecallWindow {
    messages: VecDeque<Written>,
    /// How many messages have left the window.
    left: u64,
}

#[derive(Clone, Copy, Debug)]
struct Written {
    ts: i64,
    /// The place of the message before it in its conversation; 0 for none. A group is a conversation, too.
    before: u64,
}

impl RecallWindow {
    /// Adds the newest message of a conversation; `last_place` is the place of the one before, and is updated. Without a window nothing is
    /// remembered.
    pub(super) fn add(&mut self, last_place: &mut u64, ts: i64, rules: &Rules) {
        let before = std::mem::take(last_place);
        if rules.recall_window_ms > 0 {
            self.messages.push_back(Written { ts, before });
            *last_place = self.left + self.messages.len() as u64;
        }
    }

    /// Forgets the messages that are out of the window at log time `clock`: a longer window does not bring them back.
    pub(super) fn evict(&mut self, clock: i64, rules: &Rules) {
        let is_out = |written: &Written| {
            rules.recall_window_ms <= 0 || clock.saturating_sub(written.ts) > rules.recall_window_ms
        };
        while self.messages.front().is_some_and(is_out) {
            self.messages.pop_front();
            self.left += 1;
        }
    }

    /// The time of a message, if it is in the window: `back` messages before the newest, which is at `last_place`.
    pub(super) fn written(&self, last_place: u64, back: i64) -> Option<i64> {
        let mut found = self.at(last_place)?;
        for _ in 0..back {
            found = self.at(found.before)?;
        }
        Some(found.ts)
    }

    fn at(&self, place: u64) -> Option<Written> {
        let index = place.checked_sub(self.left + 1)?;
        self.messages.get(usize::try_from(index).ok()?).copied()
    }
}
