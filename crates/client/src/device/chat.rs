//! A conversation or group, as a device has it.

use std::collections::BTreeMap;

use api::{
    ChangeEvent, ChangeItem, ChangesAfter, ContactEvent, Flags, GroupItem, HeadFrame, MessageEvent,
    MessageItem, SyncedConversation,
};
use schemas::{
    ChangeSeq, DeviceClass, EventPosition, GroupRole, Mid, NextOffset, PerDevice, Reactions, UserId,
};
use serde::{Deserialize, Serialize};

/// How many characters of the newest message a list shows.
const PREVIEW_CHARS: usize = 200;

/// A conversation or group of a user, as one of the user's devices has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Chat {
    /// What only a conversation of two users or only a group has.
    pub with: ChatWith,
    /// The newest message, with the first 200 characters of its text; `None` if the user does not see it, there is none, or it has yet to be fetched.
    pub last: Option<MessageItem>,
    /// The number of the newest message; 0 if there is none.
    pub last_mid: Mid,
    /// The number of the last change that the user has to know of; 0 if there is none.
    #[serde(rename = "chg")]
    pub change_seq: ChangeSeq,
    /// The offset in `chat.events` of the user's last hide or clear without a number; 0 if there is none.
    #[serde(default)]
    pub own_pos: i64,
    /// Up to where the user has read.
    pub read_mid: PerDevice<Mid>,
    /// How many messages are unread; `None` if it cannot be counted.
    pub unread: PerDevice<Option<i64>>,
    /// The messages that the device has, as they are now.
    pub messages: BTreeMap<Mid, MessageItem>,
    /// All messages and changes up to here were handled.
    fetched: (Mid, ChangeSeq),
    /// All hides and clears without a number up to here were handled.
    #[serde(default)]
    fetched_own_pos: i64,
    /// The events of the chat below this offset are known; of later ones, only those that the device's token covers.
    known_to: NextOffset,
}

/// Whom a chat is with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChatWith {
    /// One user.
    User {
        /// What the device's user has set.
        flags: Flags,
        /// The contact is deleted, and there is no newer message: lists leave it out.
        deleted: bool,
        /// How many messages the other user has sent.
        #[serde(rename = "peer_n")]
        peer_ordinal: i64,
    },
    /// The members of a group.
    Group {
        /// Its name.
        name: String,
        /// The user's role.
        role: GroupRole,
        /// The user is muted, and does not send.
        muted: bool,
        /// It has ended.
        dissolved: bool,
        /// How many members there are.
        member_count: i64,
        /// The user sees what was sent before joining.
        whole_history: bool,
        /// The newest message when the user joined.
        join_mid: Mid,
    },
}

/// What a device has to fetch of a chat, so that it has everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Messages above this number.
    pub after_mid: Mid,
    /// Changes after these.
    pub after_changes: ChangesAfter,
}

impl Chat {
    fn new(with: ChatWith) -> Self {
        Self {
            with,
            last: None,
            last_mid: Mid::ZERO,
            change_seq: ChangeSeq::ZERO,
            own_pos: 0,
            read_mid: PerDevice::default(),
            unread: PerDevice::default().map(|()| Some(0)),
            messages: BTreeMap::new(),
            fetched: (Mid::ZERO, ChangeSeq::ZERO),
            fetched_own_pos: 0,
            known_to: NextOffset::START,
        }
    }

    /// A chat with a user, before the first message.
    pub(super) fn with_user() -> Self {
        Self::new(ChatWith::User {
            flags: Flags::default(),
            deleted: false,
            peer_ordinal: 0,
        })
    }

    /// A group that the user has just joined. What was before is not unread; what of it can be seen has to be fetched.
    pub(super) fn joined(with: ChatWith, last_mid: Mid) -> Self {
        Self {
            last_mid,
            read_mid: PerDevice::default().map(|()| last_mid),
            ..Self::new(with)
        }
    }

    /// The last message of a group that is not shown, like all before it; 0 if there is none.
    fn unseen_mid(&self) -> Mid {
        match self.with {
            ChatWith::Group {
                whole_history: true,
                ..
            } => Mid::ZERO,
            _ => self.join_mid(),
        }
    }

    /// Whether a page whose history begins after `mid` has the history that the device is to show. `None`: a query API of an earlier version does not say.
    pub(super) fn begins_after(&self, mid: Option<Mid>) -> bool {
        mid.is_none_or(|mid| mid == self.unseen_mid())
    }

    fn join_mid(&self) -> Mid {
        match self.with {
            ChatWith::Group { join_mid, .. } => join_mid,
            ChatWith::User { .. } => Mid::ZERO,
        }
    }

    /// Notes other settings of a group, or that the user joined it again. What is not shown any more is dropped, and what is shown again has to be fetched.
    /// After the user joined again, all messages have to be fetched, since a page may have left out those from before that. All changes have to be fetched
    /// with them: a message that is fetched again may be older than the changes that are known.
    pub(super) fn set_group(&mut self, with: ChatWith) {
        let before = (self.unseen_mid(), self.join_mid());
        self.with = with;
        let unseen = self.unseen_mid();
        if unseen < before.0 || self.join_mid() != before.1 {
            self.fetched = (Mid::ZERO, ChangeSeq::ZERO);
            self.fetched_own_pos = 0;
        }
        self.drop_messages(|mid| mid <= unseen);
        self.count_group();
    }

    /// What is to be fetched; `None` if everything is here.
    #[must_use]
    pub fn missing(&self) -> Option<Missing> {
        let (after_mid, change_seq) = self.fetched;
        let own_pos = self.fetched_own_pos;
        let is_missing =
            after_mid < self.last_mid || change_seq < self.change_seq || own_pos < self.own_pos;
        is_missing.then_some(Missing {
            after_mid,
            after_changes: ChangesAfter {
                change_seq,
                own_pos,
            },
        })
    }

    /// A page that is fetched has to reflect the events of the chat below this offset, and those that the device's token covers: an older page would undo
    /// what is known.
    pub(super) fn known_to(&self) -> NextOffset {
        self.known_to
    }

    fn knows(&mut self, at: EventPosition) {
        self.known_to = self.known_to.max(at.next());
    }

    /// A conversation as a sync returned it.
    pub(super) fn take_synced_user(&mut self, answer: SyncedConversation) {
        let conversation = answer.item;
        self.with = ChatWith::User {
            flags: conversation.flags,
            deleted: answer.deleted,
            peer_ordinal: answer.peer_ordinal,
        };
        answer.at.into_iter().for_each(|at| self.knows(at));
        self.last = conversation.last;
        self.last_mid = conversation.last_mid;
        self.change_seq = conversation.change_seq;
        self.own_pos = conversation.own_pos;
        self.read_mid = conversation.read_mid;
        self.unread = conversation.unread;
        self.show_newest();
    }

    /// A group as a sync returned it.
    pub(super) fn take_synced_group(&mut self, answer: GroupItem) {
        self.set_group(ChatWith::Group {
            name: answer.name,
            role: answer.role,
            muted: answer.muted,
            dissolved: answer.dissolved,
            member_count: answer.member_count,
            whole_history: answer.whole_history,
            join_mid: answer.join_mid,
        });
        self.knows(answer.at);
        self.last = answer.last;
        self.last_mid = answer.last_mid;
        self.change_seq = answer.change_seq;
        self.own_pos = answer.own_pos;
        self.read_mid = answer.read_mid;
        self.unread = answer.unread.map(Some);
        self.show_newest();
    }

    /// Takes a message. A page or a sync may have had it already, since both may be newer than the token.
    pub(super) fn take_message(&mut self, uid: UserId, event: MessageEvent<'_>) {
        let (mid, is_own, n) = (event.mid, event.srcid == uid, event.ordinal);
        let is_newest = mid > self.last_mid;
        // A message that was fetched is not replaced: it may have changed since, and the stream may have a head in place of that change.
        if mid > self.fetched.0 {
            if self.fetched.0.next() == mid {
                self.fetched.0 = mid;
            }
            self.messages.insert(mid, MessageItem::from(event));
        }
        // A page may have had this message, and a sync after that page may not have had it yet.
        if is_newest || mid == self.last_mid && self.last.is_none() {
            self.last_mid = mid;
            self.last = self.messages.get(&mid).map(preview);
        }
        match &mut self.with {
            ChatWith::User {
                deleted,
                peer_ordinal,
                ..
            } => {
                *deleted &= !is_newest;
                let n = n.filter(|_| !is_own).unwrap_or_default();
                let more = (n - *peer_ordinal).max(0);
                *peer_ordinal += more;
                self.unread = self.unread.map(|unread| Some(unread? + more));
            }
            // A user who sends has read everything before.
            ChatWith::Group { .. } if is_own => self.take_read(None, mid, None),
            ChatWith::Group { .. } => self.count_group(),
        }
    }

    /// Unread in a group is what comes after the read position; nothing once the group has ended (PROTOCOL G4).
    fn count_group(&mut self) {
        let last_mid = match self.with {
            ChatWith::Group {
                dissolved: true, ..
            } => 0,
            _ => self.last_mid.get(),
        };
        let behind = |read: Mid| Some((last_mid - read.get()).max(0));
        self.unread = self.read_mid.map(behind);
    }

    /// Notes that the user has read up to a message: on one class, or on both.
    pub(super) fn take_read(&mut self, class: Option<DeviceClass>, mid: Mid, ordinal: Option<i64>) {
        for device in DeviceClass::ALL {
            if class.is_some_and(|class| class != device) || mid <= self.read_mid[device] {
                continue;
            }
            self.read_mid[device] = mid;
            match self.with {
                ChatWith::User { peer_ordinal, .. } => {
                    self.unread[device] = ordinal.map(|read| (peer_ordinal - read).max(0));
                }
                ChatWith::Group { .. } => self.count_group(),
            }
        }
    }

    /// Takes a change to a message, or to what the user sees, by the event at `offset`.
    pub(super) fn take_change(&mut self, uid: UserId, offset: i64, event: &ChangeEvent<'_>) {
        let msg = event.msg.as_deref();
        self.apply(event.change_seq, event.mid, &event.kind, &event.ts, msg);
        if let Some(emoji) = &event.emoji {
            self.react(event.change_seq, event.mid, |reactions| {
                reactions.remove(&event.by);
                if !emoji.is_empty() {
                    reactions.insert(event.by, emoji.clone().into_owned());
                }
            });
        }
        if self.fetched.1.next() == event.change_seq {
            self.fetched.1 = event.change_seq;
        }
        if event.change_seq == ChangeSeq::ZERO {
            // The stream has all changes without a number, so none is missing between two of them.
            if self.fetched_own_pos == self.own_pos {
                self.fetched_own_pos = self.own_pos.max(offset);
            }
            self.own_pos = self.own_pos.max(offset);
        }
        self.change_seq = self.change_seq.max(event.change_seq);
        self.show_newest();
        // A note to oneself has no read positions.
        let is_clear = event.kind == "clear" && event.by == uid && event.peer != Some(uid);
        if is_clear {
            self.take_read(None, event.mid, event.ordinal);
        }
    }

    /// Whether a change was not handled yet: the messages may already reflect a later one. A change without a number is final, and may come again.
    fn is_new(&self, change_seq: ChangeSeq) -> bool {
        change_seq == ChangeSeq::ZERO || change_seq > self.fetched.1
    }

    /// Changes the reactions to a message, unless the message was recalled: a page may have shown the recall already.
    fn react(&mut self, change_seq: ChangeSeq, mid: Mid, change: impl FnOnce(&mut Reactions)) {
        if self.is_new(change_seq)
            && let Some(message) = self.messages.get_mut(&mid)
            && !message.recalled
        {
            change(&mut message.reactions);
        }
    }

    fn apply(&mut self, change_seq: ChangeSeq, mid: Mid, kind: &str, ts: &str, msg: Option<&str>) {
        if !self.is_new(change_seq) {
            return;
        }
        let all = self.messages.values_mut().chain(&mut self.last);
        match kind {
            "recall" => all
                .filter(|message| message.mid == mid)
                .for_each(|message| {
                    message.recalled = true;
                    message.msg.clear();
                    message.reactions.clear();
                    message.edited_ts = None;
                }),
            // A page may have shown already that the message is recalled.
            "edit" => all
                .filter(|message| message.mid == mid && !message.recalled)
                .for_each(|message| {
                    msg.unwrap_or_default().clone_into(&mut message.msg);
                    message.edited_ts = Some(ts.to_owned());
                }),
            "hide" | "delete" => self.drop_messages(|other| other == mid),
            "clear" => self.drop_messages(|other| other <= mid),
            _ => {}
        }
        self.last = self.last.take().map(|last| preview(&last));
    }

    fn drop_messages(&mut self, is_gone: impl Fn(Mid) -> bool) {
        self.messages.retain(|mid, _| !is_gone(*mid));
        self.last = self.last.take().filter(|last| !is_gone(last.mid));
    }

    /// Takes a change by the user to the contact.
    pub(super) fn take_contact(&mut self, uid: UserId, event: &ContactEvent) {
        if let ChatWith::User { flags, deleted, .. } = &mut self.with {
            *flags = event.flags();
            let last_mid = self.last_mid.get().max(1);
            *deleted |= event.deleted_mid.is_some_and(|mid| mid >= last_mid);
        }
        let deleted = event.deleted_mid.filter(|_| event.peer != uid);
        if let Some(mid) = deleted.and_then(|mid| Mid::try_from(mid).ok()) {
            self.take_read(None, mid, event.deleted_n);
        }
    }

    /// Takes how far a group has come. The events in between are not in the head.
    pub(super) fn take_head(&mut self, head: &HeadFrame) {
        self.knows(head.until);
        if head.mid > self.last_mid {
            self.last_mid = head.mid;
            self.last = None;
        }
        self.change_seq = self.change_seq.max(head.change_seq);
        self.show_newest();
        self.take_read(None, head.own_mid, None);
        self.count_group();
    }

    /// Takes messages after all that were fetched, in order, up to `next`; the answer to [`Missing::after_mid`]. Without `next` there are no more.
    pub(super) fn take_fetched(
        &mut self,
        uid: UserId,
        messages: Vec<MessageItem>,
        next: Option<Mid>,
    ) {
        for message in messages {
            let mid = message.mid;
            self.fetched.0 = self.fetched.0.max(mid);
            if mid > self.last_mid
                && let ChatWith::User { deleted, .. } = &mut self.with
            {
                *deleted = false;
            }
            if mid >= self.last_mid {
                self.last_mid = mid;
                self.last = Some(preview(&message));
            }
            if message.srcid == uid && matches!(self.with, ChatWith::Group { .. }) {
                self.take_read(None, mid, None);
            }
            self.messages.insert(mid, message);
        }
        self.fetched.0 = self.fetched.0.max(next.unwrap_or(self.last_mid));
        if matches!(self.with, ChatWith::Group { .. }) {
            self.count_group();
        }
    }

    /// Takes the changes after `after`, up to `next`, or all; the answer to [`Missing::after_changes`]. They count up to the first change of a message that
    /// has yet to be fetched. That change and the later ones come again once the message is fetched.
    pub(super) fn take_fetched_changes(
        &mut self,
        after: ChangesAfter,
        changes: &[ChangeItem],
        next: Option<ChangesAfter>,
    ) {
        let counted = self.counted(changes, next);
        for change in changes {
            let msg = change.msg.as_deref();
            self.apply(change.change_seq, change.mid, &change.kind, &change.ts, msg);
            if let Some(all) = &change.reactions {
                self.react(change.change_seq, change.mid, |reactions| {
                    reactions.clone_from(all);
                });
            }
        }
        // If `after` is higher, an earlier page was not counted to its end.
        if after.change_seq <= self.fetched.1 {
            self.fetched.1 = self.fetched.1.max(counted.change_seq);
        }
        if after.own_pos <= self.fetched_own_pos {
            self.fetched_own_pos = self.fetched_own_pos.max(counted.own_pos);
        }
        self.show_newest();
    }

    /// Up to where the changes of a page count.
    fn counted(&self, changes: &[ChangeItem], next: Option<ChangesAfter>) -> ChangesAfter {
        let newest = || ChangesAfter {
            change_seq: changes
                .iter()
                .map(|one| one.change_seq)
                .fold(self.change_seq, ChangeSeq::max),
            own_pos: changes
                .iter()
                .filter_map(|one| one.own_pos)
                .fold(self.own_pos, i64::max),
        };
        let mut counted = next.unwrap_or_else(newest);
        let is_early = |change: &&ChangeItem| change.mid > self.fetched.0;
        for early in changes.iter().rev().filter(is_early) {
            match early.own_pos {
                Some(own_pos) => counted.own_pos = own_pos - 1,
                None => {
                    counted.change_seq =
                        ChangeSeq::try_from(early.change_seq.get() - 1).unwrap_or_default();
                }
            }
        }
        counted
    }

    /// If nothing is missing, the newest message is known; a sync that was older than a page may have had it as it was before.
    fn show_newest(&mut self) {
        if self.missing().is_none() {
            self.last = self.messages.get(&self.last_mid).map(preview);
        }
    }
}

fn preview(message: &MessageItem) -> MessageItem {
    MessageItem {
        msg: message.msg.chars().take(PREVIEW_CHARS).collect(),
        // Left out, as in the newest message of a sync.
        client_msg_id: None,
        reactions: Reactions::new(),
        ..message.clone()
    }
}
