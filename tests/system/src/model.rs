//! What users must see, computed from the accepted events.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use rand::{Rng as _, rngs::StdRng};
use schemas::{Change, DeviceClass, PerDevice};
use serde_json::{Map, Value};

/// An accepted message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sent {
    /// Its sender.
    pub srcid: i64,
    /// The sender's id of it.
    pub client_msg_id: String,
    /// Its text.
    pub msg: String,
}

impl Sent {
    /// What a page has of it.
    pub(crate) fn of(item: &Value) -> Result<Self> {
        let text = |name: &str| item[name].as_str().with_context(|| format!("{item}"));
        Ok(Self {
            srcid: text("srcid")?.parse()?,
            client_msg_id: text("client_msg_id")?.to_owned(),
            msg: text("msg")?.to_owned(),
        })
    }
}

/// All reactions are this one, and none is taken back: one whose response was lost may come after the next.
const EMOJI: &str = "👍";

/// A change to a message, and to which: its author changes `own`, everybody reacts to `any`, and changes what they see of it.
pub(crate) fn some_change(rng: &mut StdRng, own: i64, any: i64, text: String) -> (i64, Change) {
    match rng.random_range(0..9) {
        0..=2 => (own, Change::Recall),
        3..=5 => (own, Change::Edit(text)),
        6 => (any, Change::Hide),
        7 => (any, Change::React(EMOJI.to_owned())),
        // The newest message is not cleared, so that something is left to see.
        _ => (any / 2 + 1, Change::Clear),
    }
}

/// Two users, the smaller uid first.
type Pair = (i64, i64);

/// A conversation of two users, or a group whose members do not change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conversation {
    /// The message with mid `m` is at `m − 1`.
    messages: Vec<Sent>,
    read: BTreeMap<i64, PerDevice<i64>>,
    edited: BTreeMap<i64, String>,
    /// The mids for which a recall was requested. Whether it was in time is decided on the log, and judged by the audit.
    recalls: BTreeSet<i64>,
    /// By message, the users who have reacted.
    reacted: BTreeMap<i64, BTreeSet<i64>>,
    hidden: BTreeSet<(i64, i64)>,
    cleared: BTreeMap<i64, i64>,
    flags: BTreeMap<i64, BTreeSet<&'static str>>,
}

/// A message as one of its two users must see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visible {
    /// Its number.
    pub mid: i64,
    /// The message as sent, with its newest text.
    pub sent: Sent,
    /// Whether it was edited.
    pub edited: bool,
    /// Whether its author has requested a recall.
    pub maybe_recalled: bool,
    /// The users who have reacted.
    pub reacted: BTreeSet<i64>,
}

impl Visible {
    /// Whether a page shows it so.
    pub(crate) fn is_shown_as(&self, item: &Value) -> Result<bool> {
        let seen = Sent::of(item)?;
        if item["recalled"] == true {
            let without_text = Sent {
                msg: String::new(),
                ..self.sent.clone()
            };
            return Ok(self.maybe_recalled && seen == without_text);
        }
        let is_edited = item.get("edited_ts").is_some();
        let reactions = item["reactions"].as_object().cloned().unwrap_or_default();
        let reacted = self.reacted.iter();
        let reacted: Map<String, Value> =
            reacted.map(|uid| (uid.to_string(), EMOJI.into())).collect();
        Ok(seen == self.sent && is_edited == self.edited && reactions == reacted)
    }
}

/// Conversations in which every write and read is recorded here.
#[derive(Clone, Debug, Default)]
pub struct Model {
    conversations: BTreeMap<Pair, Conversation>,
    /// The nicks that were set, in order.
    nicks: BTreeMap<i64, Vec<String>>,
}

impl Model {
    /// A message was accepted, after all earlier ones. Returns its mid.
    pub fn sent(&mut self, destid: i64, message: Sent) -> i64 {
        self.conversation(message.srcid, destid).sent(message)
    }

    /// A read-ack was accepted: `uid` has read the messages of `peer` up to `mid`, but no further than the newest message.
    pub fn read(&mut self, uid: i64, peer: i64, device: DeviceClass, mid: i64) {
        if let Some(conversation) = self.conversations.get_mut(&pair(uid, peer)) {
            conversation.read(uid, device, mid);
        }
    }

    /// A change was accepted. Each message is edited at most once.
    pub fn changed(&mut self, by: i64, peer: i64, mid: i64, change: Change) {
        self.conversation(by, peer).changed(by, mid, change);
    }

    /// A profile with this nick was accepted.
    pub fn named(&mut self, uid: i64, nick: String) {
        self.nicks.entry(uid).or_default().push(nick);
    }

    /// The nicks that `uid` has set. The last one counts; but an earlier one whose response was lost may be on the log after the next. Which is last
    /// on the log, and so in the stores, is judged by the audit.
    pub fn nicks(&self, uid: i64) -> &[String] {
        self.nicks.get(&uid).map_or(&[], Vec::as_slice)
    }

    /// `uid` has set a flag for the contact with `peer`. Flags are never taken back.
    pub fn flagged(&mut self, uid: i64, peer: i64, flag: &'static str) {
        let conversation = self.conversation(uid, peer);
        conversation.flags.entry(uid).or_default().insert(flag);
    }

    /// The flags that `uid` has set for the contact with `peer`.
    pub fn flags(&self, uid: i64, peer: i64) -> BTreeSet<&'static str> {
        let conversation = self.conversations.get(&pair(uid, peer));
        let flags = conversation.and_then(|conversation| conversation.flags.get(&uid));
        flags.cloned().unwrap_or_default()
    }

    /// The messages by `srcid` to `peer` that were not edited, and for which no recall was requested.
    pub fn unchanged(&self, srcid: i64, peer: i64) -> Vec<i64> {
        let conversation = self.conversations.get(&pair(srcid, peer));
        conversation.map_or_else(Vec::new, |conversation| conversation.unchanged(srcid))
    }

    /// The messages that `uid` must see of the conversation with `peer`, oldest first.
    pub fn visible(&self, uid: i64, peer: i64) -> Vec<Visible> {
        let conversation = self.conversations.get(&pair(uid, peer));
        conversation.map_or_else(Vec::new, |conversation| conversation.visible(uid))
    }

    /// The users, of the two, whose views of their conversation differ: both, or one to stand for both.
    pub fn viewers(&self, lo: i64, hi: i64) -> Vec<i64> {
        let differ = self.visible(lo, hi) != self.visible(hi, lo);
        if differ { vec![lo, hi] } else { vec![lo] }
    }

    fn conversation(&mut self, one: i64, other: i64) -> &mut Conversation {
        self.conversations.entry(pair(one, other)).or_default()
    }

    /// How many messages of each sender `uid` has not read; senders at zero are left out.
    pub fn unread(&self, uid: i64, device: DeviceClass) -> BTreeMap<i64, i64> {
        let mut unread = BTreeMap::new();
        for (pair, conversation) in &self.conversations {
            let Some(peer) = peer_of(*pair, uid).filter(|peer| *peer != uid) else {
                continue;
            };
            let read = conversation.read.get(&uid).map_or(0, |read| read[device]);
            let count = (1..)
                .zip(&conversation.messages)
                .filter(|(mid, message)| message.srcid == peer && *mid > read)
                .count();
            if count > 0 {
                unread.insert(peer, count as i64);
            }
        }
        unread
    }

    /// The messages between two users, in the order of their mids.
    pub fn messages(&self, uid: i64, peer: i64) -> &[Sent] {
        let conversation = self.conversations.get(&pair(uid, peer));
        conversation.map_or(&[], |conversation| &conversation.messages)
    }

    /// The users with whom `uid` has messages, or for whom `uid` has set flags.
    pub(crate) fn peers(&self, uid: i64) -> BTreeSet<i64> {
        let peers = self.pairs().filter_map(|pair| peer_of(pair, uid));
        let has_any = |peer: &i64| {
            !self.messages(uid, *peer).is_empty() || !self.flags(uid, *peer).is_empty()
        };
        peers.filter(has_any).collect()
    }

    /// All users of the conversations.
    pub fn users(&self) -> BTreeSet<i64> {
        self.pairs().flat_map(|(lo, hi)| [lo, hi]).collect()
    }

    /// The pairs of users that have a conversation.
    pub fn pairs(&self) -> impl Iterator<Item = (i64, i64)> {
        self.conversations.keys().copied()
    }
}

impl Conversation {
    pub(crate) fn sent(&mut self, message: Sent) -> i64 {
        self.messages.push(message);
        self.len()
    }

    /// How many messages there are, which is the mid of the newest.
    pub(crate) fn len(&self) -> i64 {
        self.messages.len() as i64
    }

    pub(crate) fn read(&mut self, uid: i64, device: DeviceClass, mid: i64) {
        let mid = mid.min(self.len());
        let read = &mut self.read.entry(uid).or_default()[device];
        *read = mid.max(*read);
    }

    /// Whether a recall was in time is decided on the log, and judged by the audit. A user who clears has read up to there.
    pub(crate) fn changed(&mut self, by: i64, mid: i64, change: Change) {
        match change {
            Change::Recall | Change::Delete => {
                self.recalls.insert(mid);
            }
            Change::Edit(msg) => {
                self.edited.insert(mid, msg);
            }
            Change::React(_) => {
                self.reacted.entry(mid).or_default().insert(by);
            }
            Change::Hide => {
                self.hidden.insert((by, mid));
            }
            Change::Clear => {
                let cleared = self.cleared.entry(by).or_default();
                *cleared = mid.max(*cleared);
                for device in DeviceClass::ALL {
                    self.read(by, device, mid);
                }
            }
        }
    }

    pub(crate) fn unchanged(&self, srcid: i64) -> Vec<i64> {
        (1..)
            .zip(&self.messages)
            .filter(|(mid, message)| {
                message.srcid == srcid
                    && !self.edited.contains_key(mid)
                    && !self.recalls.contains(mid)
            })
            .map(|(mid, _)| mid)
            .collect()
    }

    pub(crate) fn visible(&self, uid: i64) -> Vec<Visible> {
        let cleared = self.cleared.get(&uid).copied().unwrap_or(0);
        (1..)
            .zip(&self.messages)
            .filter(|(mid, _)| *mid > cleared && !self.hidden.contains(&(uid, *mid)))
            .map(|(mid, sent)| {
                let edited = self.edited.get(&mid);
                Visible {
                    mid,
                    sent: Sent {
                        msg: edited.unwrap_or(&sent.msg).clone(),
                        ..sent.clone()
                    },
                    edited: edited.is_some(),
                    maybe_recalled: self.recalls.contains(&mid),
                    reacted: self.reacted.get(&mid).cloned().unwrap_or_default(),
                }
            })
            .collect()
    }

    /// How many messages a member of a group has not read: those after the last message read, and after the last one sent.
    pub(crate) fn unread_in_group(&self, uid: i64, device: DeviceClass) -> i64 {
        let read = self.read.get(&uid).map_or(0, |read| read[device]);
        let own = self
            .messages
            .iter()
            .rposition(|message| message.srcid == uid)
            .map_or(0, |index| index as i64 + 1);
        self.len() - read.max(own)
    }
}

fn pair(a: i64, b: i64) -> Pair {
    (a.min(b), a.max(b))
}

fn peer_of((lo, hi): Pair, uid: i64) -> Option<i64> {
    match uid {
        _ if uid == lo => Some(hi),
        _ if uid == hi => Some(lo),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(model: &mut Model, srcid: i64, destid: i64) -> i64 {
        let message = Sent {
            srcid,
            client_msg_id: String::new(),
            msg: String::new(),
        };
        model.sent(destid, message)
    }

    #[test]
    fn what_the_other_side_wrote_is_unread_until_it_is_read_on_that_class() {
        let mut model = Model::default();
        let mids = [(1, 2), (2, 1), (1, 2)].map(|(from, to)| send(&mut model, from, to));
        assert_eq!(mids, [1, 2, 3]);
        model.read(2, 1, DeviceClass::Mobile, 2);
        assert_eq!(
            model.unread(2, DeviceClass::Mobile),
            BTreeMap::from([(1, 1)])
        );
        assert_eq!(model.unread(2, DeviceClass::Pc), BTreeMap::from([(1, 2)]));
        assert_eq!(model.unread(1, DeviceClass::Pc), BTreeMap::from([(2, 1)]));
    }

    #[test]
    fn reading_never_goes_back_nor_ahead_of_the_messages() {
        let mut model = Model::default();
        send(&mut model, 1, 2);
        model.read(2, 1, DeviceClass::Pc, 9);
        model.read(2, 1, DeviceClass::Pc, 0);
        assert!(model.unread(2, DeviceClass::Pc).is_empty());
        send(&mut model, 1, 2);
        assert_eq!(model.unread(2, DeviceClass::Pc), BTreeMap::from([(1, 1)]));
    }

    #[test]
    fn each_side_sees_what_it_has_not_hidden_or_cleared() {
        let mut model = Model::default();
        for _ in 0..3 {
            send(&mut model, 1, 2);
        }
        model.changed(1, 2, 3, Change::Hide);
        model.changed(2, 1, 2, Change::Clear);
        model.changed(1, 2, 3, Change::Edit("new".to_owned()));
        let mids = |uid, peer| -> Vec<i64> {
            let visible = model.visible(uid, peer).into_iter();
            visible.map(|message| message.mid).collect()
        };
        assert_eq!((mids(1, 2), mids(2, 1)), (vec![1, 2], vec![3]));
        assert_eq!(model.visible(2, 1)[0].sent.msg, "new");
        assert_eq!(model.unread(2, DeviceClass::Pc), BTreeMap::from([(1, 1)]));
        assert_eq!(model.unchanged(1, 2), [1, 2]);
        assert_eq!(model.viewers(1, 2), [1, 2]);
    }

    #[test]
    fn who_sends_to_a_group_has_read_it() {
        let mut group = Conversation::default();
        for srcid in [1, 2, 1, 3] {
            group.sent(Sent {
                srcid,
                client_msg_id: String::new(),
                msg: String::new(),
            });
        }
        group.read(2, DeviceClass::Pc, 3);
        let unread = |uid, device| group.unread_in_group(uid, device);
        assert_eq!(
            (unread(2, DeviceClass::Pc), unread(2, DeviceClass::Mobile)),
            (1, 2)
        );
        assert_eq!(
            (unread(3, DeviceClass::Pc), unread(4, DeviceClass::Pc)),
            (0, 4)
        );
    }

    #[test]
    fn flags_alone_are_a_conversation_of_whoever_has_set_them() {
        let mut model = Model::default();
        send(&mut model, 1, 2);
        model.flagged(1, 3, "pinned");
        let peers = [1, 2, 3, 4].map(|uid| Vec::from_iter(model.peers(uid)));
        assert_eq!(peers, [vec![2, 3], vec![1], vec![], vec![]]);
    }

    #[test]
    fn a_note_to_oneself_is_never_unread() {
        let mut model = Model::default();
        send(&mut model, 1, 1);
        assert!(model.unread(1, DeviceClass::Pc).is_empty());
        assert_eq!(model.messages(1, 1).len(), 1);
    }
}
