use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use schemas::{ClientMsgId, UserId, event::Rules};

/// The sends of late, by which a repeat is told: those within the window of log time, and no more than the rules remember.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    sends: HashMap<u64, Send>,
    /// In log order.
    order: VecDeque<(i64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Send {
    ts: i64,
    payload: u64,
}

/// What is known of a client_msg_id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remembered {
    /// Nothing within the window.
    Nothing,
    /// It was sequenced with this content.
    Same,
    /// It was sequenced with another.
    Other,
}

/// The fields of a send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendKey<'a> {
    pub(crate) srcid: UserId,
    pub(crate) destid: UserId,
    pub(crate) client_msg_id: &'a ClientMsgId,
    pub(crate) msg: &'a str,
}

impl SendKey<'_> {
    fn key(&self) -> u64 {
        // Sender and receiver name the conversation as well.
        let mut hasher = DefaultHasher::new();
        (self.srcid, self.destid, self.client_msg_id.as_str()).hash(&mut hasher);
        hasher.finish()
    }

    fn payload(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.msg.hash(&mut hasher);
        hasher.finish()
    }
}

impl Memory {
    /// What a send at log time `now` comes to.
    pub(crate) fn recall(&self, send: &SendKey<'_>, now: i64, rules: &Rules) -> Remembered {
        let held = self.sends.get(&send.key());
        match held.filter(|held| now.saturating_sub(held.ts) <= rules.dedup_window_ms) {
            None => Remembered::Nothing,
            Some(held) if held.payload == send.payload() => Remembered::Same,
            Some(_) => Remembered::Other,
        }
    }

    pub(crate) fn remember(&mut self, send: &SendKey<'_>, ts: i64, rules: &Rules) {
        let key = send.key();
        let payload = send.payload();
        self.sends.insert(key, Send { ts, payload });
        self.order.push_back((ts, key));
        self.forget(ts, rules);
    }

    /// Lets go of what no repeat can meet any more at log time `clock`.
    pub(crate) fn forget(&mut self, clock: i64, rules: &Rules) {
        let most = usize::try_from(rules.dedup_max_entries).unwrap_or(usize::MAX);
        while let Some(&(ts, key)) = self.order.front() {
            if clock.saturating_sub(ts) <= rules.dedup_window_ms && self.order.len() <= most {
                return;
            }
            self.order.pop_front();
            // The same id may have been sent anew since, after its window.
            if self.sends.get(&key).is_some_and(|held| held.ts == ts) {
                self.sends.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send<'a>(id: &'a ClientMsgId, msg: &'a str) -> SendKey<'a> {
        let user = |uid: i64| UserId::try_from(uid).unwrap();
        SendKey {
            srcid: user(1),
            destid: user(2),
            client_msg_id: id,
            msg,
        }
    }

    #[test]
    fn a_send_is_remembered_for_the_window_and_no_longer() {
        let rules = Rules {
            dedup_window_ms: 10,
            ..Rules::VERSION_1
        };
        let id = "c".to_owned().try_into().unwrap();
        let mut memory = Memory::default();
        memory.remember(&send(&id, "a"), 100, &rules);
        assert_eq!(
            memory.recall(&send(&id, "a"), 110, &rules),
            Remembered::Same
        );
        assert_eq!(
            memory.recall(&send(&id, "b"), 110, &rules),
            Remembered::Other
        );
        assert_eq!(
            memory.recall(&send(&id, "a"), 111, &rules),
            Remembered::Nothing
        );
        memory.forget(111, &rules);
        assert!(memory.sends.is_empty());
    }

    #[test]
    fn the_oldest_goes_first_when_there_are_too_many() {
        let rules = Rules {
            dedup_max_entries: 1,
            ..Rules::VERSION_1
        };
        let [one, other]: [ClientMsgId; 2] = ["1", "2"].map(|id| id.to_owned().try_into().unwrap());
        let mut memory = Memory::default();
        memory.remember(&send(&one, "a"), 1, &rules);
        memory.remember(&send(&other, "a"), 2, &rules);
        assert_eq!(
            memory.recall(&send(&one, "a"), 2, &rules),
            Remembered::Nothing
        );
        assert_eq!(
            memory.recall(&send(&other, "a"), 2, &rules),
            Remembered::Same
        );
    }
}
