use schemas::{
    DeviceClass, DirectConversation, TimestampMs, UserId,
    event::{Message, ReadPosition},
};

use super::{
    contact::{Contact, Last, Read},
    preview_digest,
    senders::Senders,
};

/// One conversation, as its events leave it. Index 0 is lo, 1 is hi; a note to oneself has lo only.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conversation {
    last: Last,
    sent: [i64; 2],
    /// By side, then by class.
    reads: [[Read; 2]; 2],
    senders: Senders,
    /// Offset of the newest event.
    at: i64,
}

fn side(conversation: DirectConversation, uid: UserId) -> usize {
    usize::from(uid != conversation.lo())
}

fn class(device: DeviceClass) -> usize {
    usize::from(device == DeviceClass::Mobile)
}

impl Conversation {
    pub(crate) fn last_mid(&self) -> i64 {
        self.last.mid
    }

    pub(crate) fn newest_event(&self) -> i64 {
        self.at
    }

    /// Where `uid` has read up to.
    pub(crate) fn read_mid(&self, id: DirectConversation, uid: UserId, device: DeviceClass) -> i64 {
        self.reads[side(id, uid)][class(device)].mid
    }

    /// Takes a message in; what was wrong with its numbers. `is_whole` says whether the log holds everything before it.
    pub(crate) fn message(
        &mut self,
        id: DirectConversation,
        message: &Message,
        ts: TimestampMs,
        at: i64,
        is_whole: bool,
    ) -> Option<String> {
        let (mid, n) = (message.mid.get(), message.n.get());
        let side = side(id, message.srcid);
        let is_first_seen = self.last.mid == 0;
        let wrong = if mid != self.last.mid + 1 && (is_whole || !is_first_seen) {
            Some(format!("mid {mid} of {id} follows {}", self.last.mid))
        } else if n != self.sent[side] + 1 && is_whole {
            Some(format!(
                "n {n} of {} in {id} follows {}",
                message.srcid, self.sent[side]
            ))
        } else {
            None
        };
        // As every store does: what is not above the newest changes nothing.
        if mid > self.last.mid {
            self.last = Last {
                mid,
                ts: ts.0,
                srcid: message.srcid.get(),
                preview: preview_digest(&message.msg),
            };
        }
        self.sent[side] = self.sent[side].max(n);
        self.senders.set(mid, side == 1);
        self.at = at;
        wrong
    }

    /// Takes a read position in; what was wrong with it.
    pub(crate) fn read(
        &mut self,
        id: DirectConversation,
        position: &ReadPosition,
        at: i64,
        is_whole: bool,
    ) -> Option<String> {
        let (mid, side) = (position.mid.get(), side(id, position.uid));
        let before = self.reads[side][class(position.device)];
        let n = before.n.unwrap_or(0) + self.sent_between(id, position.peer, before.mid, mid);
        let uid = position.uid;
        let wrong = if mid <= before.mid {
            Some(format!(
                "the read position {mid} of {uid} in {id} follows {}",
                before.mid
            ))
        } else if mid > self.last.mid && is_whole {
            Some(format!(
                "the read position {mid} of {uid} in {id} is above {}",
                self.last.mid
            ))
        } else if is_whole && position.n.is_some_and(|told| told.get() != n) {
            Some(format!(
                "the read position {mid} of {uid} in {id} has n {:?}, {n} is right",
                position.n
            ))
        } else {
            None
        };
        if mid > before.mid {
            self.reads[side][class(position.device)] = Read { mid, n: Some(n) };
        }
        self.at = at;
        wrong
    }

    /// How many messages `sender` sent above `after` and up to `upto`.
    fn sent_between(&self, id: DirectConversation, sender: UserId, after: i64, upto: i64) -> i64 {
        let by_hi = self.senders.by_hi(after, upto);
        if side(id, sender) == 1 {
            by_hi
        } else {
            (upto - after).max(0) - by_hi
        }
    }

    /// What is to be kept for `uid`.
    pub(crate) fn contact(&self, id: DirectConversation, uid: UserId) -> Contact {
        let own = side(id, uid);
        Contact {
            last: self.last,
            peer_n: if id.is_to_self() {
                0
            } else {
                self.sent[1 - own]
            },
            own_n: self.sent[own],
            reads: self.reads[own],
        }
    }
}
