//! What users must see, computed from what was sent and read.

use std::collections::{BTreeMap, BTreeSet};

use schemas::{DeviceClass, PerDevice};

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

/// Smaller uid first.
type Pair = (i64, i64);

#[derive(Clone, Debug, Default)]
struct Conversation {
    /// The message with mid `m` is at `m − 1`.
    messages: Vec<Sent>,
    read: BTreeMap<i64, PerDevice<i64>>,
}

/// Conversations in which every write and read is recorded here.
#[derive(Clone, Debug, Default)]
pub struct Model {
    conversations: BTreeMap<Pair, Conversation>,
}

impl Model {
    /// A message was accepted, after all earlier ones. Returns its mid.
    pub fn sent(&mut self, destid: i64, message: Sent) -> i64 {
        let conversation = self
            .conversations
            .entry(pair(message.srcid, destid))
            .or_default();
        conversation.messages.push(message);
        conversation.messages.len() as i64
    }

    /// A read-ack was accepted: `uid` has read what `peer` wrote, up to `mid`, but no further than there is anything.
    pub fn read(&mut self, uid: i64, peer: i64, device: DeviceClass, mid: i64) {
        if let Some(conversation) = self.conversations.get_mut(&pair(uid, peer)) {
            let mid = mid.min(conversation.messages.len() as i64);
            let read = &mut conversation.read.entry(uid).or_default()[device];
            *read = mid.max(*read);
        }
    }

    /// How many messages of each sender `uid` has not read; nobody is at zero.
    pub fn unread(&self, uid: i64, device: DeviceClass) -> BTreeMap<i64, i64> {
        let mut unread = BTreeMap::new();
        for ((lo, hi), conversation) in &self.conversations {
            let peer = match uid {
                _ if lo == hi => continue,
                _ if uid == *lo => *hi,
                _ if uid == *hi => *lo,
                _ => continue,
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

    /// Everybody who takes part.
    pub fn users(&self) -> BTreeSet<i64> {
        self.pairs().flat_map(|(lo, hi)| [lo, hi]).collect()
    }

    /// Who talks with whom.
    pub fn pairs(&self) -> impl Iterator<Item = (i64, i64)> {
        self.conversations.keys().copied()
    }
}

fn pair(a: i64, b: i64) -> Pair {
    (a.min(b), a.max(b))
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
    fn a_note_to_oneself_is_never_unread() {
        let mut model = Model::default();
        send(&mut model, 1, 1);
        assert!(model.unread(1, DeviceClass::Pc).is_empty());
        assert_eq!(model.messages(1, 1).len(), 1);
    }
}
