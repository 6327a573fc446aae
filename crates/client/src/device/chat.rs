//! A conversation or group, as a device has it.

use std::collections::BTreeMap;

use schemas::{Chg, DeviceClass, GroupRole, Mid, PerDevice, UserId};

use super::frame::{ContactChangeEvent, MessageChangeEvent, MessageEvent};
use crate::{Change, Flags, ListedGroup, Message, SyncedConversation};

/// How many characters of the newest message a list shows.
const PREVIEW_CHARS: usize = 200;

/// A conversation or group of a user, as one of the user's devices has it.
#[derive(Clone, Debug)]
pub struct Chat {
    /// What only a conversation of two users or only a group has.
    pub with: ChatWith,
    /// The newest message, with the first 200 characters of its text; `None` where the user does not see it, there is none, or it has yet to be
    /// fetched.
    pub last: Option<Message>,
    /// The number of the newest message; 0 where there is none.
    pub last_mid: Mid,
    /// The number of the last change that the user has to know of; 0 where there is none.
    pub chg: Chg,
    /// Up to where the user has read.
    pub read_mid: PerDevice<Mid>,
    /// How many messages are unread; `None` where it cannot be counted.
    pub unread: PerDevice<Option<i64>>,
    /// The messages that the device has, as they are now.
    pub messages: BTreeMap<Mid, Message>,
    /// All messages and changes up to here were handled.
    fetched: (Mid, Chg),
}

/// Whom a chat is with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChatWith {
    /// One user.
    User {
        /// What the device's user has set.
        flags: Flags,
        /// The contact is deleted, and there is no newer message: lists leave it out.
        deleted: bool,
        /// How many messages the other has sent.
        peer_n: i64,
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
    /// Changes above this number.
    pub after_chg: Chg,
}

impl Chat {
    fn new(with: ChatWith) -> Self {
        Self {
            with,
            last: None,
            last_mid: Mid::ZERO,
            chg: Chg::ZERO,
            read_mid: PerDevice::default(),
            unread: PerDevice::default().map(|()| Some(0)),
            messages: BTreeMap::new(),
            fetched: (Mid::ZERO, Chg::ZERO),
        }
    }

    /// With a user, before the first message.
    pub(super) fn with_user() -> Self {
        Self::new(ChatWith::User {
            flags: Flags::default(),
            deleted: false,
            peer_n: 0,
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

    /// Of a group up to here nothing is shown.
    fn unseen_mid(&self) -> Mid {
        match self.with {
            ChatWith::Group {
                whole_history: false,
                join_mid,
                ..
            } => join_mid,
            _ => Mid::ZERO,
        }
    }

    /// A group has other settings, or the user joined again. What is not shown any more is dropped, what is shown again has to be fetched.
    pub(super) fn set_group(&mut self, with: ChatWith) {
        let before = self.unseen_mid();
        self.with = with;
        let unseen = self.unseen_mid();
        if unseen < before {
            self.fetched.0 = Mid::ZERO;
        }
        self.drop_messages(|mid| mid <= unseen);
    }

    /// What is to be fetched; `None` where everything is here.
    #[must_use]
    pub fn missing(&self) -> Option<Missing> {
        let (after_mid, after_chg) = self.fetched;
        (after_mid < self.last_mid || after_chg < self.chg).then_some(Missing {
            after_mid,
            after_chg,
        })
    }

    pub(super) fn synced_user(self, answer: SyncedConversation) -> Self {
        let SyncedConversation {
            conversation,
            deleted,
            peer_n,
        } = answer;
        Self {
            with: ChatWith::User {
                flags: conversation.flags,
                deleted,
                peer_n,
            },
            last: conversation.last,
            last_mid: conversation.last_mid,
            chg: conversation.chg,
            read_mid: conversation.read_mid,
            unread: conversation.unread,
            ..self
        }
    }

    pub(super) fn synced_group(mut self, answer: ListedGroup) -> Self {
        self.set_group(ChatWith::Group {
            name: answer.name,
            role: answer.role,
            muted: answer.muted,
            dissolved: answer.dissolved,
            member_count: answer.member_count,
            whole_history: answer.whole_history,
            join_mid: answer.join_mid,
        });
        Self {
            last: answer.last,
            last_mid: answer.last_mid,
            chg: answer.chg,
            read_mid: answer.read_mid,
            unread: answer.unread.map(Some),
            ..self
        }
    }

    /// A message. What a sync returned may have it already: rows may be newer than the token that comes with them.
    pub(super) fn take_message(&mut self, uid: UserId, event: MessageEvent) {
        let (mid, is_own) = (event.mid, event.srcid == uid);
        // A page that was fetched had it, as changed since, or without it.
        let is_fetched = mid <= self.fetched.0;
        if self.fetched.0.next() == mid {
            self.fetched.0 = mid;
        }
        let message = Message {
            mid,
            srcid: event.srcid,
            destid: event.destid,
            gid: event.gid,
            msg: event.msg,
            ts: event.ts,
            client_msg_id: Some(event.client_msg_id),
            recalled: false,
            edited_ts: None,
        };
        if mid > self.last_mid {
            self.count(&message, is_own, event.n);
            self.last_mid = mid;
            self.last = Some(preview(&message));
        }
        if !is_fetched {
            self.messages.insert(mid, message);
        }
    }

    /// The unread counts after a message behind all others.
    fn count(&mut self, message: &Message, is_own: bool, n: Option<i64>) {
        match &mut self.with {
            ChatWith::User {
                deleted, peer_n, ..
            } => {
                *deleted = false;
                if let Some(n) = n.filter(|_| !is_own) {
                    let more = n - *peer_n;
                    *peer_n = n;
                    self.unread = self.unread.map(|unread| Some(unread? + more));
                }
            }
            // Who sends has read everything before.
            ChatWith::Group { .. } if is_own => self.read_group(None, message.mid, message.mid),
            ChatWith::Group { .. } => {
                self.unread = self.unread.map(|unread| Some(unread? + 1));
            }
        }
    }

    /// The user has read up to a message: on one class, or on both.
    pub(super) fn take_read(&mut self, class: Option<DeviceClass>, mid: Mid, n: Option<i64>) {
        let ChatWith::User { peer_n, .. } = self.with else {
            return self.read_group(class, mid, self.last_mid);
        };
        for device in DeviceClass::ALL {
            if class.is_none_or(|class| class == device) && mid > self.read_mid[device] {
                self.read_mid[device] = mid;
                self.unread[device] = n.map(|n| (peer_n - n).max(0));
            }
        }
    }

    fn read_group(&mut self, class: Option<DeviceClass>, mid: Mid, last_mid: Mid) {
        for device in DeviceClass::ALL {
            if class.is_none_or(|class| class == device) && mid > self.read_mid[device] {
                self.read_mid[device] = mid;
                self.unread[device] = Some((last_mid.get() - mid.get()).max(0));
            }
        }
    }

    /// A message changed, or what the user sees.
    pub(super) fn take_change(&mut self, uid: UserId, event: MessageChangeEvent) {
        if self.fetched.1.next() == event.chg {
            self.fetched.1 = event.chg;
        }
        self.chg = self.chg.max(event.chg);
        let is_clear = event.kind == "clear" && event.by == uid;
        self.apply(
            event.mid,
            &event.kind,
            Some(&event.ts),
            event.msg.as_deref(),
        );
        if is_clear {
            self.take_read(None, event.mid, event.n);
        }
    }

    fn apply(&mut self, mid: Mid, kind: &str, ts: Option<&str>, msg: Option<&str>) {
        let all = self.messages.values_mut().chain(&mut self.last);
        match kind {
            "recall" => all
                .filter(|message| message.mid == mid)
                .for_each(|message| {
                    message.recalled = true;
                    message.msg.clear();
                }),
            "edit" => all
                .filter(|message| message.mid == mid)
                .for_each(|message| {
                    msg.unwrap_or_default().clone_into(&mut message.msg);
                    message.edited_ts = ts.map(str::to_owned);
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

    /// The user has changed what he says about the contact.
    pub(super) fn take_contact(&mut self, event: &ContactChangeEvent) {
        if let ChatWith::User { flags, deleted, .. } = &mut self.with {
            *flags = event.flags;
            let last_mid = self.last_mid.get();
            *deleted |= event.deleted_mid.is_some_and(|mid| mid >= last_mid);
        }
        if let Some(mid) = event.deleted_mid.and_then(|mid| Mid::try_from(mid).ok()) {
            self.take_read(None, mid, event.deleted_n);
        }
    }

    /// A group has come this far, without a word on what is between.
    pub(super) fn take_head(&mut self, mid: Mid, chg: Chg) {
        if mid > self.last_mid {
            self.last_mid = mid;
            self.last = None;
            self.unread = PerDevice::default();
        }
        self.chg = self.chg.max(chg);
    }

    /// Messages behind all that were fetched, in order; the answer to [`Missing::after_mid`]. `is_all`: there are no more, unless the store of
    /// a conversation's messages is behind that of its head.
    pub(super) fn take_fetched(&mut self, uid: UserId, messages: Vec<Message>, is_all: bool) {
        for message in messages {
            self.fetched.0 = self.fetched.0.max(message.mid);
            let is_newest = message.mid >= self.last_mid;
            if message.srcid == uid && matches!(self.with, ChatWith::Group { .. }) {
                self.read_group(None, message.mid, self.last_mid);
            }
            if is_newest {
                self.last_mid = message.mid;
                self.last = Some(preview(&message));
            }
            self.messages.insert(message.mid, message);
        }
        let sees_newest = self.last.is_some();
        if is_all && (!sees_newest || self.messages.contains_key(&self.last_mid)) {
            self.fetched.0 = self.fetched.0.max(self.last_mid);
            self.count_again();
        }
    }

    /// After a head: by what was fetched.
    fn count_again(&mut self) {
        if matches!(self.with, ChatWith::Group { .. }) {
            let last_mid = self.last_mid.get();
            let read_mid = self.read_mid;
            for device in DeviceClass::ALL {
                let unread = (last_mid - read_mid[device].get()).max(0);
                self.unread[device].get_or_insert(unread);
            }
        }
    }

    /// Changes behind all that were fetched; the answer to [`Missing::after_chg`].
    pub(super) fn take_fetched_changes(&mut self, changes: Vec<Change>, is_all: bool) {
        for change in changes {
            self.fetched.1 = self.fetched.1.max(change.chg);
            self.apply(
                change.mid,
                &change.kind,
                Some(&change.ts),
                change.msg.as_deref(),
            );
        }
        if is_all {
            self.fetched.1 = self.fetched.1.max(self.chg);
        }
    }
}

fn preview(message: &Message) -> Message {
    Message {
        msg: message.msg.chars().take(PREVIEW_CHARS).collect(),
        ..message.clone()
    }
}
