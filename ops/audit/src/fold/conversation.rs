use std::collections::BTreeSet;

use schemas::{
    Change, ContactChange, ContactFlags, DeviceClass, DirectConversation, MessageChange, PerDevice,
    Side, TimestampMs, UserId,
    event::{Body, Message, ReadPosition},
};

use super::{
    contact::{Contact, Flags, LastMessage, LastRead},
    message_state::MessageState,
    preview_digest,
    senders::Senders,
};

/// The author of a message, and whether it was recalled, are known while it is among this many of the newest (PROTOCOL C).
const REACH: i64 = 4_096;

/// Of the messages from before rule version 3, the authors of this many of the newest are known.
const KNOWN_BEFORE_VERSION_3: i64 = 128;

/// The state of one conversation. In a note to oneself only `lo` is used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conversation {
    last: Last,
    lo: UserState,
    hi: UserState,
    senders: Senders,
    /// The sequencer knows the authors of the messages above this mid.
    unknown_authors_to: i64,
    /// The place of the newest message in the recall window; see [`RecallWindow`](super::recall_window::RecallWindow).
    pub(super) last_place: u64,
    /// Present only if something was changed.
    changes: Option<Box<Changes>>,
}

/// The newest message; all 0 if there is none.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    mid: i64,
    ts: i64,
    srcid: i64,
    preview: u64,
}

#[derive(Clone, Debug, Default)]
struct UserState {
    /// n of the user's newest message.
    sent: i64,
    reads: PerDevice<Read>,
    /// The offset of the last event that changed what the user sees.
    event_offset: i64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Read {
    mid: i64,
    ordinal: i64,
}

/// State that few conversations have.
#[derive(Clone, Debug, Default)]
struct Changes {
    /// How many changes there were.
    change_seq: i64,
    /// The change that the newest message is shown with, 0 for none, and the resulting state of the message.
    last_chg: i64,
    last_state: MessageState,
    /// The messages that were recalled or deleted for both.
    recalled: BTreeSet<i64>,
    lo: UserChanges,
    hi: UserChanges,
}

/// The changes of one of the two users to their own view of the conversation.
#[derive(Clone, Debug, Default)]
struct UserChanges {
    flags: Flags,
    deleted_mid: i64,
    clear_mid: i64,
    hidden: BTreeSet<i64>,
    /// The offset of the last hide or clear without a number; 0 for none.
    own_pos: i64,
}

impl Conversation {
    pub(crate) fn last_mid(&self) -> i64 {
        self.last.mid
    }

    /// The offset of the newest event.
    pub(crate) fn newest_event(&self) -> i64 {
        self.lo.event_offset.max(self.hi.event_offset)
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

    fn user_changes(&self, side: Side) -> Option<&UserChanges> {
        let changes = self.changes.as_ref()?;
        Some(match side {
            Side::Lo => &changes.lo,
            Side::Hi => &changes.hi,
        })
    }

    fn user_changes_mut(&mut self, side: Side) -> &mut UserChanges {
        let changes = self.changes.get_or_insert_default();
        match side {
            Side::Lo => &mut changes.lo,
            Side::Hi => &mut changes.hi,
        }
    }

    pub(crate) fn read_mid(&self, id: DirectConversation, uid: UserId, device: DeviceClass) -> i64 {
        self.user(id.side_of(uid)).reads[device].mid
    }

    pub(crate) fn flags(&self, side: Side) -> ContactFlags {
        self.user_changes(side)
            .map_or_else(ContactFlags::default, |changes| changes.flags.set)
    }

    /// The newest message when the user last deleted the contact; 0 for never.
    pub(crate) fn deleted_mid(&self, side: Side) -> i64 {
        self.user_changes(side).map_or(0, |own| own.deleted_mid)
    }

    /// The message up to which the user has cleared the history; 0 for none.
    pub(crate) fn clear_mid(&self, side: Side) -> i64 {
        self.user_changes(side).map_or(0, |own| own.clear_mid)
    }

    /// Who wrote a message, as far as the sequencer remembers.
    pub(crate) fn known_author(&self, mid: i64) -> Option<Side> {
        let is_known = self.last.mid - mid < REACH && mid > self.unknown_authors_to;
        is_known.then(|| {
            if self.senders.is_by_hi(mid) {
                Side::Hi
            } else {
                Side::Lo
            }
        })
    }

    pub(crate) fn is_recalled(&self, mid: i64) -> bool {
        let changes = self.changes.as_ref();
        changes.is_some_and(|changes| changes.recalled.contains(&mid))
    }

    /// Applies the start of rule version 3.
    pub(crate) fn begin_version_3(&mut self) {
        self.unknown_authors_to = self.last.mid - KNOWN_BEFORE_VERSION_3;
    }

    /// Applies an event of the conversation; returns what is wrong with its numbers. `is_whole` says whether the log has everything before it.
    pub(crate) fn apply(
        &mut self,
        id: DirectConversation,
        body: &Body,
        ts: TimestampMs,
        at: i64,
        is_whole: bool,
    ) -> Option<String> {
        match body {
            Body::Message(message) => self.message(id, message, ts, at, is_whole),
            Body::ReadPosition(position) => self.read(id, position, at, is_whole),
            Body::MessageChange(change) => self.message_change(id, change, at, is_whole),
            Body::ContactChange(change) => self.contact_change(id, change, at, is_whole),
            Body::GroupChange(_) | Body::Profile(_) | Body::Control(_) | Body::Progress => None,
        }
    }

    fn message(
        &mut self,
        id: DirectConversation,
        message: &Message,
        ts: TimestampMs,
        at: i64,
        is_whole: bool,
    ) -> Option<String> {
        let (mid, n) = (message.mid.get(), message.ordinal.get());
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
            self.last = Last {
                mid,
                ts: ts.0,
                srcid: message.srcid.get(),
                preview: preview_digest(&message.msg),
            };
            if let Some(changes) = &mut self.changes {
                changes.last_chg = 0;
                changes.last_state = MessageState::Shown;
            }
        }
        self.user_mut(side).sent = sent.max(n);
        self.senders.set(mid, side == Side::Hi);
        self.touch_both(id, at);
        wrong
    }

    /// Notes that both users see an event.
    fn touch_both(&mut self, id: DirectConversation, at: i64) {
        for uid in id.users() {
            self.user_mut(id.side_of(uid)).event_offset = at;
        }
    }

    fn read(
        &mut self,
        id: DirectConversation,
        position: &ReadPosition,
        at: i64,
        is_whole: bool,
    ) -> Option<String> {
        let (mid, side) = (position.mid.get(), id.side_of(position.uid));
        let before = self.user(side).reads[position.device];
        let uid = position.uid;
        self.raise_read(id, uid, position.device, mid);
        self.user_mut(side).event_offset = at;
        if mid <= before.mid {
            return Some(format!(
                "the read position {mid} of {uid} in {id} follows {}",
                before.mid
            ));
        }
        if mid > self.last.mid && is_whole {
            return Some(format!(
                "the read position {mid} of {uid} in {id} is above {}",
                self.last.mid
            ));
        }
        let n = self.user(side).reads[position.device].ordinal;
        let is_wrong = is_whole && position.ordinal.is_some_and(|stated| stated.get() != n);
        is_wrong.then(|| {
            format!(
                "the read position {mid} of {uid} in {id} has n {:?}, {n} is right",
                position.ordinal
            )
        })
    }

    fn raise_read(&mut self, id: DirectConversation, uid: UserId, device: DeviceClass, mid: i64) {
        let side = id.side_of(uid);
        let before = self.user(side).reads[device];
        if mid > before.mid {
            let n = before.ordinal + self.sent_between(id, id.peer_of(uid), before.mid, mid);
            self.user_mut(side).reads[device] = Read { mid, ordinal: n };
        }
    }

    /// The user has read everything up to `mid` on every device. A note to oneself is never unread.
    fn raise_reads(&mut self, id: DirectConversation, uid: UserId, mid: i64) {
        if !id.is_to_self() {
            for device in DeviceClass::ALL {
                self.raise_read(id, uid, device, mid);
            }
        }
    }

    /// Applies a change. [`expected_of_message_change`](super::changes::expected_of_message_change) judges whether the message was to be changed so.
    fn message_change(
        &mut self,
        id: DirectConversation,
        change: &MessageChange,
        at: i64,
        is_whole: bool,
    ) -> Option<String> {
        let (mid, change_seq, side) = (
            change.mid.get(),
            change.change_seq.get(),
            id.side_of(change.by),
        );
        let kind = change.change.kind();
        let before = self
            .changes
            .as_ref()
            .map_or(0, |changes| changes.change_seq);
        let n = match change.change {
            Change::Clear => Some(self.sent_between(id, id.peer_of(change.by), 0, mid)),
            _ => None,
        };
        let wrong = if !change.is_own() && change_seq != before + 1 && (is_whole || before > 0) {
            Some(format!("chg {change_seq} of {id} follows {before}"))
        } else if is_whole && !self.may_state(change, n) {
            let stated = change.ordinal;
            Some(format!(
                "the {kind} up to {mid} in {id} has n {stated:?}, {n:?} is right"
            ))
        } else {
            None
        };
        self.changes.get_or_insert_default().change_seq = before.max(change_seq);
        if let Some((msg, state)) = MessageState::after(&change.change) {
            self.change_text(mid, change_seq, msg, state);
        }
        match change.change {
            Change::Hide => drop(self.user_changes_mut(side).hidden.insert(mid)),
            Change::Clear => {
                let own = self.user_changes_mut(side);
                own.clear_mid = own.clear_mid.max(mid);
                self.raise_reads(id, change.by, mid);
            }
            _ => {}
        }
        if change.is_own() {
            self.user_mut(side).event_offset = at;
            self.user_changes_mut(side).own_pos = at;
        } else {
            self.touch_both(id, at);
        }
        wrong
    }

    /// Whether a change may have its ordinal if `n` is the right one. The right one is known for the newest 128 messages.
    fn may_state(&self, change: &MessageChange, n: Option<i64>) -> bool {
        match change.ordinal {
            None => n.is_none() || self.last.mid - change.mid.get() > 128,
            Some(stated) => Some(stated.get()) == n,
        }
    }

    /// A recalled message stays recalled.
    fn change_text(&mut self, mid: i64, change_seq: i64, msg: &str, state: MessageState) {
        let last = &mut self.last;
        let changes = self.changes.get_or_insert_default();
        if changes.recalled.contains(&mid) {
            return;
        }
        if state != MessageState::Shown {
            changes.recalled.insert(mid);
        }
        if mid == last.mid {
            last.preview = preview_digest(msg);
            changes.last_chg = change_seq;
            changes.last_state = state;
        }
    }

    fn contact_change(
        &mut self,
        id: DirectConversation,
        change: &ContactChange,
        at: i64,
        is_whole: bool,
    ) -> Option<String> {
        let (uid, side) = (change.uid, id.side_of(change.uid));
        let (last, n) = (self.last.mid, self.user(id.side_of(change.peer)).sent);
        let wrong = match change.deleted {
            Some(deleted) if is_whole && deleted.mid.get() != last => Some(format!(
                "the contact of {uid} in {id} is deleted at {}, {last} is right",
                deleted.mid
            )),
            Some(deleted) if is_whole && deleted.ordinal.get() != n => Some(format!(
                "the contact of {uid} in {id} is deleted with n {}, {n} is right",
                deleted.ordinal
            )),
            _ => None,
        };
        let own = self.user_changes_mut(side);
        own.flags = Flags {
            set: change.flags,
            at,
        };
        if let Some(deleted) = change.deleted {
            own.deleted_mid = own.deleted_mid.max(deleted.mid.get());
            self.raise_reads(id, uid, deleted.mid.get());
        }
        self.user_mut(side).event_offset = at;
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

    /// What a projection stores of the conversation for `uid`.
    pub(crate) fn contact(&self, id: DirectConversation, uid: UserId) -> Contact {
        let side = id.side_of(uid);
        let own = self.user(side);
        let peer = self.user(id.side_of(id.peer_of(uid)));
        let changes = self.changes.as_ref();
        let own_changes = self.user_changes(side);
        let Last {
            mid,
            ts,
            srcid,
            preview,
        } = self.last;
        Contact {
            last: LastMessage {
                mid,
                ts,
                srcid,
                preview,
                change_seq: changes.map_or(0, |changes| changes.last_chg),
                state: changes.map_or_else(MessageState::default, |changes| changes.last_state),
            },
            peer_ordinal: if id.is_to_self() { 0 } else { peer.sent },
            own_ordinal: own.sent,
            reads: own.reads.map(|Read { mid, ordinal: n }| LastRead {
                mid,
                ordinal: Some(n),
            }),
            change_seq: changes.map_or(0, |changes| changes.change_seq),
            own_pos: own_changes.map_or(0, |own| own.own_pos),
            event_offset: own.event_offset,
            flags: own_changes.map_or_else(Flags::default, |own| own.flags),
            deleted_mid: self.deleted_mid(side),
            clear_mid: self.clear_mid(side),
            hidden: own_changes.map_or_else(Vec::new, |own| own.hidden.iter().copied().collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// State that only changes need is behind a pointer.
    #[test]
    fn a_conversation_costs_what_the_docs_say() {
        assert!(size_of::<Conversation>() <= 176);
    }
}
