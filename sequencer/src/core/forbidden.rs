//! Changes of state that PROTOCOL S1 and S5 forbid, for showing that they are noticed.

use schemas::{TimestampMs, command::SendMessage, event::Rules};

use super::{State, dedup::DedupKey};

impl State {
    pub(crate) fn move_clock(&mut self, ts: TimestampMs) {
        self.clock = self.clock.max(ts);
    }

    pub(crate) fn evict_at(&mut self, wall: TimestampMs) {
        self.dedup.evict(wall, &self.rules);
    }

    pub(crate) fn refresh(&mut self, send: &SendMessage, ts: TimestampMs) {
        let key = DedupKey::new(send.conversation(), send.srcid, &send.client_msg_id);
        self.dedup.refresh(&key, ts);
    }

    pub(crate) fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }
}
