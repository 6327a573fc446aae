use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use schemas::{ClientMsgId, UserId, event::Rules};

/// The recent sends, by which a repeat is recognised: those within the window of log time, up to the rules' maximum number.
#[derive(Debug, Default)]
pub(crate) struct DedupWindow {
    sends: HashMap<u64, Send>,
    /// In log order.
    order: VecDeque<(i64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Send {
    ts: i64,
    payload: u64,
}

/// Whether the window has a client_msg_id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    Absent,
    SamePayload,
    OtherPayload,
}

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

impl DedupWindow {
    /// Looks a send up at log time `now`.
    pub(crate) fn lookup(&self, send: &SendKey<'_>, now: i64, rules: &Rules) -> Lookup {
        let held = self.sends.get(&send.key());
        match held.filter(|held| now.saturating_sub(held.ts) <= rules.dedup_window_ms) {
            None => Lookup::Absent,
            Some(held) if held.payload == send.payload() => Lookup::SamePayload,
            Some(_) => Lookup::OtherPayload,
        }
    }

    pub(crate) fn insert(&mut self, send: &SendKey<'_>, ts: i64, rules: &Rules) {
        let key = send.key();
        let payload = send.payload();
        self.sends.insert(key, Send { ts, payload });
        self.order.push_back((ts, key));
        self.evict(ts, rules);
    }

    /// Removes the sends that are out of the window at log time `clock`.
    pub(crate) fn evict(&mut self, clock: i64, rules: &Rules) {
        let most = usize::try_from(rules.dedup_max_entries).unwrap_or(usize::MAX);
        while let Some(&(ts, key)) = self.order.front() {
            if clock.saturating_sub(ts) <= rules.dedup_window_ms && self.order.len() <= most {
                return;
            }
            self.order.pop_front();
            // After its window, the same id may have been sent again.
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
        let mut window = DedupWindow::default();
        window.insert(&send(&id, "a"), 100, &rules);
        assert_eq!(
            window.lookup(&send(&id, "a"), 110, &rules),
            Lookup::SamePayload
        );
        assert_eq!(
            window.lookup(&send(&id, "b"), 110, &rules),
            Lookup::OtherPayload
        );
        assert_eq!(window.lookup(&send(&id, "a"), 111, &rules), Lookup::Absent);
        window.evict(111, &rules);
        assert!(window.sends.is_empty());
    }

    #[test]
    fn the_oldest_goes_first_when_there_are_too_many() {
        let rules = Rules {
            dedup_max_entries: 1,
            ..Rules::VERSION_1
        };
        let [one, other]: [ClientMsgId; 2] = ["1", "2"].map(|id| id.to_owned().try_into().unwrap());
        let mut window = DedupWindow::default();
        window.insert(&send(&one, "a"), 1, &rules);
        window.insert(&send(&other, "a"), 2, &rules);
        assert_eq!(window.lookup(&send(&one, "a"), 2, &rules), Lookup::Absent);
        assert_eq!(
            window.lookup(&send(&other, "a"), 2, &rules),
            Lookup::SamePayload
        );
    }
}
