use std::collections::VecDeque;

use schemas::event::Rules;

/// When the messages of the partition were written that have been within the recall window ever since, in log order (PROTOCOL C). 16 bytes a
/// message. A place is the number of a message among those that came in, from 1.
#[derive(Debug, Default)]
pub(crate) struct RecallWindow {
    messages: VecDeque<Written>,
    /// How many have left it.
    left: u64,
}

#[derive(Clone, Copy, Debug)]
struct Written {
    ts: i64,
    /// The place of its conversation's message before it; 0 for none. A group is a conversation, too.
    before: u64,
}

impl RecallWindow {
    /// Adds the newest message of a conversation; `last_place` is that of the newest one. Without a window nothing is remembered.
    pub(super) fn add(&mut self, last_place: &mut u64, ts: i64, rules: &Rules) {
        let before = std::mem::take(last_place);
        if rules.recall_window_ms > 0 {
            self.messages.push_back(Written { ts, before });
            *last_place = self.left + self.messages.len() as u64;
        }
    }

    /// Forgets what is out of the window at log time `clock`: a longer window does not bring it back.
    pub(super) fn evict(&mut self, clock: i64, rules: &Rules) {
        let is_out = |written: &Written| {
            rules.recall_window_ms <= 0 || clock.saturating_sub(written.ts) > rules.recall_window_ms
        };
        while self.messages.front().is_some_and(is_out) {
            self.messages.pop_front();
            self.left += 1;
        }
    }

    /// When a message was written, if it is in the window: the one so many before the newest, which is at `last_place`.
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
