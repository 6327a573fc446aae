use std::collections::HashMap;

use schemas::{UserId, event::Rules};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// How many conversations each user has begun on the last day on which one was begun, while that is limited (PROTOCOL S14).
#[derive(Debug, Default)]
pub(crate) struct BegunConversations {
    day: i64,
    by_user: HashMap<UserId, i64>,
}

impl BegunConversations {
    pub(super) fn add(&mut self, user: UserId, ts: i64, rules: &Rules) {
        if rules.new_conversations_per_day <= 0 {
            return;
        }
        if self.day != ts.div_euclid(DAY_MS) {
            self.day = ts.div_euclid(DAY_MS);
            self.by_user.clear();
        }
        *self.by_user.entry(user).or_insert(0) += 1;
    }

    /// How many conversations a user has begun on the day of `now`.
    pub(super) fn of(&self, user: UserId, now: i64) -> i64 {
        match self.by_user.get(&user) {
            Some(begun) if self.day == now.div_euclid(DAY_MS) => *begun,
            _ => 0,
        }
    }
}
