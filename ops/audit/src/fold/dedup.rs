use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    hash::{BuildHasher as _, RandomState},
};

use schemas::{
    ClientMsgId, CommandScope, ConversationId, UserId, command::SendMessage, event::Rules,
};

use super::repeat_key::RepeatKey;

/// The recent sends and other commands, by which a repeat is recognised: those within the window of log time, up to the maximum number of the rules.
/// From rule version 2 on a sender gets a part of them, and further sends of that sender are kept separately (PROTOCOL S3).
#[derive(Debug, Default)]
pub(crate) struct DedupWindow {
    shared: Sends,
    /// The senders of the sends that were added in this round, and how many of each.
    round: HashMap<UserId, i64>,
    added_in_round: i64,
    own: HashMap<UserId, Sends>,
    clock: i64,
    /// With its own random keys, so that nobody can search for two sends with equal hashes.
    hashes: RandomState,
}

#[derive(Debug, Default)]
struct Sends {
    by_key: HashMap<u64, Send>,
    /// Times and keys, in log order.
    order: VecDeque<(i64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Send {
    ts: i64,
    payload: u64,
}

/// Whether the window has a client_msg_id, or another command's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    Absent,
    SamePayload,
    OtherPayload,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SendKey<'a> {
    pub(crate) srcid: UserId,
    pub(crate) to: ConversationId,
    pub(crate) client_msg_id: &'a ClientMsgId,
    pub(crate) msg: &'a str,
}

impl<'a> SendKey<'a> {
    pub(crate) fn new(send: &'a SendMessage) -> Self {
        Self {
            srcid: send.srcid,
            to: send.conversation(),
            client_msg_id: &send.client_msg_id,
            msg: &send.msg,
        }
    }

    fn key(&self, hashes: &RandomState) -> u64 {
        hashes.hash_one((self.srcid, self.to, self.client_msg_id.as_str()))
    }
}

impl DedupWindow {
    /// Looks a send up at log time `now`.
    pub(crate) fn lookup(&self, send: &SendKey<'_>, now: i64, rules: &Rules) -> Lookup {
        let (key, payload) = (send.key(&self.hashes), self.hashes.hash_one(send.msg));
        self.lookup_key(Some(send.srcid), (key, payload), now, rules)
    }

    /// The same for another command.
    pub(crate) fn lookup_command(
        &self,
        scope: CommandScope,
        (key, content): (RepeatKey<'_>, u32),
        now: i64,
        rules: &Rules,
    ) -> Lookup {
        let key = self.hashes.hash_one((scope, key));
        self.lookup_key(scope.author, (key, content.into()), now, rules)
    }

    fn lookup_key(
        &self,
        author: Option<UserId>,
        (key, payload): (u64, u64),
        now: i64,
        rules: &Rules,
    ) -> Lookup {
        let own = author.and_then(|author| self.own.get(&author));
        let held = [Some(&self.shared), own]
            .into_iter()
            .flatten()
            .filter_map(|sends| sends.by_key.get(&key))
            .find(|held| now.saturating_sub(held.ts) <= rules.dedup_window_ms);
        match held {
            None => Lookup::Absent,
            Some(held) if held.payload == payload => Lookup::SamePayload,
            Some(_) => Lookup::OtherPayload,
        }
    }

    pub(crate) fn insert(&mut self, send: &SendKey<'_>, ts: i64, rules: &Rules) {
        let payload = self.hashes.hash_one(send.msg);
        let key = send.key(&self.hashes);
        self.add(Some(send.srcid), key, Send { ts, payload }, rules);
    }

    pub(crate) fn insert_command(
        &mut self,
        scope: CommandScope,
        (key, content): (RepeatKey<'_>, u32),
        ts: i64,
        rules: &Rules,
    ) {
        let key = self.hashes.hash_one((scope, key));
        let payload = content.into();
        self.add(scope.author, key, Send { ts, payload }, rules);
    }

    /// An operator has no share of the shared entries.
    fn add(&mut self, author: Option<UserId>, key: u64, added: Send, rules: &Rules) {
        let (ts, window) = (added.ts, rules.dedup_window_ms);
        self.evict(ts, rules);
        let author = author.filter(|author| !self.takes_of_the_shared(*author, rules));
        let Some(author) = author else {
            self.shared.add(key, added);
            self.shared.evict(ts, window, rules.dedup_max_entries);
            return;
        };
        let own = self.own.entry(author).or_default();
        own.evict(ts, window, i64::MAX);
        own.add(key, added);
        let senders = self.own.len() as i64;
        let most = (rules.dedup_max_entries / senders).clamp(1, rules.dedup_max_per_sender.max(1));
        if let Some(own) = self.own.get_mut(&author) {
            own.evict(ts, window, most);
        }
    }

    /// A round is a sixty-fourth of the shared sends. One sender may add a sixty-fourth of the maximum for a sender.
    fn takes_of_the_shared(&mut self, sender: UserId, rules: &Rules) -> bool {
        let (all, of_one) = (rules.dedup_max_entries, rules.dedup_max_per_sender);
        if rules.rule_version < 2 || of_one >= all {
            return true;
        }
        if self.added_in_round >= all / 64 {
            self.round.clear();
            self.added_in_round = 0;
        }
        let added = self.round.entry(sender).or_insert(0);
        let takes = *added < (of_one / 64).max(1);
        *added += i64::from(takes);
        self.added_in_round += i64::from(takes);
        takes
    }

    /// Removes the sends that are out of the window at log time `clock`. A sender's own sends are removed once a second.
    pub(crate) fn evict(&mut self, clock: i64, rules: &Rules) {
        let window = rules.dedup_window_ms;
        self.shared.evict(clock, window, rules.dedup_max_entries);
        if self.clock.div_euclid(1000) != clock.div_euclid(1000) {
            self.own.retain(|_, own| {
                own.evict(clock, window, i64::MAX);
                !own.order.is_empty()
            });
        }
        self.clock = clock;
    }
}

impl Sends {
    /// A key that is still there keeps its time and content: a control with an expired id may lengthen the window, and so bring back the entry of that id.
    fn add(&mut self, key: u64, send: Send) {
        if let Entry::Vacant(absent) = self.by_key.entry(key) {
            absent.insert(send);
            self.order.push_back((send.ts, key));
        }
    }

    fn evict(&mut self, clock: i64, window: i64, most: i64) {
        while let Some(&(ts, key)) = self.order.front() {
            if clock.saturating_sub(ts) <= window && self.order.len() as i64 <= most {
                return;
            }
            self.order.pop_front();
            self.by_key.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use schemas::DirectConversation;

    use super::*;

    fn send<'a>(id: &'a ClientMsgId, msg: &'a str) -> SendKey<'a> {
        let user = |uid: i64| UserId::try_from(uid).unwrap();
        SendKey {
            srcid: user(1),
            to: DirectConversation::new(user(1), user(2)).into(),
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
        assert!(window.shared.by_key.is_empty());
    }

    #[test]
    fn a_sender_ends_no_window_but_his_own() {
        let rules = Rules {
            rule_version: 2,
            dedup_max_entries: 640,
            dedup_max_per_sender: 64,
            ..Rules::VERSION_1
        };
        let ids: Vec<ClientMsgId> = (0..2_000)
            .map(|n: i32| n.to_string().try_into().unwrap())
            .collect();
        let of = |uid: i64, id| {
            let srcid = UserId::try_from(uid).unwrap();
            SendKey {
                srcid,
                ..send(id, "a")
            }
        };
        let mut window = DedupWindow::default();
        window.insert(&of(1, &ids[0]), 5, &rules);
        for id in &ids {
            window.insert(&of(9, id), 5, &rules);
        }
        let is_known = |uid, id| window.lookup(&of(uid, id), 5, &rules) != Lookup::Absent;
        assert!(is_known(1, &ids[0]));
        assert_eq!(ids.iter().filter(|id| is_known(9, id)).count(), 65);
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
