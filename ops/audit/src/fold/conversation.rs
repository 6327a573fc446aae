use schemas::{
    DeviceClass, DirectConversation, PerDevice, Side, TimestampMs, UserId,
    event::{Message, ReadPosition},
};

use super::{
    contact::{Contact, LastMessage, LastRead},
    preview_digest,
    senders::Senders,
};

/// The state of one conversation. In a note to oneself only `lo` is used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conversation {
    last: LastMessage,
    lo: UserState,
    hi: UserState,
    senders: Senders,
    newest_event: i64,
}

#[derive(Clone, Debug, Default)]
struct UserState {
    /// n of the user's newest message.
    sent: i64,
    reads: PerDevice<LastRead>,
}

impl Conversation {
    pub(crate) fn last_mid(&self) -> i64 {
        self.last.mid
    }

    /// The offset of the newest event.
    pub(crate) fn newest_event(&self) -> i64 {
        self.newest_event
    }

    fn user(&self, side: Side) -> &UserState {
        match side {
            Side::Lo => &self.lo,
            Side::Hi => &self.hi,
        }
    }

    fn user_mut(&mut self, side: Side) -> &mut UserState {
        match side {
            Side::Lo => &mut self.lo,
            Side::Hi => &mut self.hi,
        }
    }

    pub(crate) fn read_mid(&self, id: DirectConversation, uid: UserId, device: DeviceClass) -> i64 {
        self.user(id.side_of(uid)).reads[device].mid
    }

    /// Applies a message; returns what is wrong with its numbers. `is_whole` says whether the log has everything before it.
    pub(crate) fn message(
        &mut self,
        id: DirectConversation,
        message: &Message,
        ts: TimestampMs,
        at: i64,
        is_whole: bool,
    ) -> Option<String> {
        let (mid, n) = (message.mid.get(), message.n.get());
        let side = id.side_of(message.srcid);
        let sent = self.user(side).sent;
        let is_first_seen = self.last.mid == 0;
        let wrong = if mid != self.last.mid + 1 && (is_whole || !is_first_seen) {
            Some(format!("mid {mid} of {id} follows {}", self.last.mid))
        } else if n != sent + 1 && is_whole {
            Some(format!("n {n} of {} in {id} follows {sent}", message.srcid))
        } else {
            None
        };
        // As in every store, a mid that is not above the newest changes nothing.
        if mid > self.last.mid {
            self.last = LastMessage {
                mid,
                ts: ts.0,
                srcid: message.srcid.get(),
                preview: preview_digest(&message.msg),
            };
        }
        self.user_mut(side).sent = sent.max(n);
        self.senders.set(mid, side == Side::Hi);
        self.newest_event = at;
        wrong
    }

    /// Applies a read position; returns what is wrong with it.
    pub(crate) fn read(
        &mut self,
        id: DirectConversation,
        position: &ReadPosition,
        at: i64,
        is_whole: bool,
    ) -> Option<String> {
        let (mid, side) = (position.mid.get(), id.side_of(position.uid));
        let before = self.user(side).reads[position.device];
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
        } else if is_whole && position.n.is_some_and(|stated| stated.get() != n) {
            Some(format!(
                "the read position {mid} of {uid} in {id} has n {:?}, {n} is right",
                position.n
            ))
        } else {
            None
        };
        if mid > before.mid {
            self.user_mut(side).reads[position.device] = LastRead { mid, n: Some(n) };
        }
        self.newest_event = at;
        wrong
    }

    /// How many messages `sender` sent above `after` and up to `upto`.
    fn sent_between(&self, id: DirectConversation, sender: UserId, after: i64, upto: i64) -> i64 {
        let by_hi = self.senders.by_hi(after, upto);
        if id.side_of(sender) == Side::Hi {
            by_hi
        } else {
            (upto - after).max(0) - by_hi
        }
    }

    /// What a projection stores of it for `uid`.
    pub(crate) fn contact(&self, id: DirectConversation, uid: UserId) -> Contact {
        let own = self.user(id.side_of(uid));
        let peer = self.user(id.side_of(id.peer_of(uid)));
        Contact {
            last: self.last,
            peer_n: if id.is_to_self() { 0 } else { peer.sent },
            own_n: own.sent,
            reads: own.reads,
        }
    }
}
