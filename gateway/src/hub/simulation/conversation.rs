//! What the stores have of a conversation, and what its users get of it over HTTP.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
};

use client::ChangesAfter;
use message_store::PREVIEW_CHARS;
use schemas::{
    Change, ChangeSeq, ContactFlags, ConversationId, GroupChange, GroupMember, GroupSettings,
    MessageChange, Mid, Ordinal, PerDevice, Reactions, Recipient, TimestampMs, UserId,
    event::{Body, Message},
};
use serde_json::{Value, json};

use crate::hub::test_events::group_settings;

/// A conversation, as of an offset of its partition.
#[derive(Clone, Default)]
pub(super) struct Conversation {
    messages: Vec<Stored>,
    pub(super) changes: Vec<(MessageChange, i64)>,
    pub(super) group: Group,
    /// The last event that changed the contents or the group.
    pub(super) event_offset: i64,
    pub(super) views: BTreeMap<UserId, View>,
}

/// A message as it is now.
#[derive(Clone)]
pub(super) struct Stored {
    pub(super) author: UserId,
    client_msg_id: String,
    msg: String,
    sent_at: i64,
    edited_at: Option<i64>,
    reactions: Reactions,
    is_recalled: bool,
    is_deleted: bool,
}

impl Stored {
    /// Neither recalled nor deleted.
    pub(super) fn is_there(&self) -> bool {
        !self.is_recalled && !self.is_deleted
    }
}

/// Settings and members of a group.
#[derive(Clone)]
pub(super) struct Group {
    pub(super) settings: GroupSettings,
    count: i64,
    /// With the newest message when they joined.
    pub(super) members: BTreeMap<UserId, Member>,
}

#[derive(Clone)]
pub(super) struct Member {
    pub(super) muted: bool,
    join_mid: Mid,
}

impl Default for Group {
    fn default() -> Self {
        Self {
            settings: group_settings(),
            count: 0,
            members: BTreeMap::new(),
        }
    }
}

/// A user's row: `contact_<n>` or `membership_<n>`, with what the user has hidden.
#[derive(Clone, Default)]
pub(super) struct View {
    /// The last event that changed it.
    pub(super) event_offset: i64,
    pub(super) flags: ContactFlags,
    pub(super) deleted_mid: Mid,
    read: PerDevice<(Mid, Ordinal)>,
    pub(super) clear_mid: Mid,
    hidden: BTreeSet<Mid>,
    /// The last hide or clear without a number.
    pub(super) own_pos: i64,
    own_mid: Mid,
    join_mid: Mid,
    /// The events by which the user joined last, and left last.
    pub(super) join_pos: i64,
    pub(super) left_pos: Option<i64>,
}

impl View {
    /// Up to where the user has read.
    pub(super) fn read_mids(&self) -> PerDevice<Mid> {
        let floor = self.own_mid.max(self.join_mid).max(self.clear_mid);
        self.read.map(|(mid, _)| mid.max(floor))
    }
}

impl Conversation {
    pub(super) fn last_mid(&self) -> Mid {
        Mid::try_from(self.messages.len() as i64).unwrap()
    }

    pub(super) fn message(&self, mid: Mid) -> &Stored {
        &self.messages[mid.get() as usize - 1]
    }

    /// How many messages a user had sent up to one.
    pub(super) fn sent_by(&self, user: UserId, mid: Mid) -> Ordinal {
        let messages = self.messages.iter().take(mid.get() as usize);
        let sent = messages.filter(|message| message.author == user).count();
        Ordinal::try_from(sent as i64).unwrap()
    }

    pub(super) fn view(&self, user: UserId) -> View {
        self.views.get(&user).cloned().unwrap_or_default()
    }

    /// In a dissolved group: whether the user was a member then, and has not left since.
    pub(super) fn is_member(&self, user: UserId) -> bool {
        self.group.members.contains_key(&user)
    }

    /// Applies an event as the projectors do.
    pub(super) fn apply(&mut self, offset: i64, body: &Body) {
        match body {
            Body::Message(message) => self.apply_message(offset, message),
            Body::MessageChange(change) => self.apply_change(offset, change),
            Body::ReadPosition(position) => {
                let own = self.touch(position.uid, offset);
                let read = &mut own.read[position.device];
                *read = (position.mid, position.ordinal.unwrap_or_default());
            }
            Body::ContactChange(change) => {
                let own = self.touch(change.uid, offset);
                own.flags = change.flags;
                let deleted = change.deleted.map_or(Mid::ZERO, |deleted| deleted.mid);
                own.deleted_mid = own.deleted_mid.max(deleted);
            }
            Body::GroupChange(change) => self.apply_group_change(offset, change),
            Body::Control(_) | Body::Progress | Body::Profile(_) => {}
        }
        for position in body.read_positions() {
            let read = &mut self.touch(position.uid, offset).read[position.device];
            *read = (position.mid, position.ordinal.unwrap()).max(*read);
        }
    }

    fn touch(&mut self, user: UserId, offset: i64) -> &mut View {
        let view = self.views.entry(user).or_default();
        view.event_offset = offset;
        view
    }

    fn apply_message(&mut self, offset: i64, message: &Message) {
        self.event_offset = offset;
        self.messages.push(Stored {
            author: message.srcid,
            client_msg_id: message.client_msg_id.to_string(),
            msg: message.msg.clone(),
            sent_at: offset,
            edited_at: None,
            reactions: Reactions::new(),
            is_recalled: false,
            is_deleted: false,
        });
        match message.to {
            Recipient::User(peer) => {
                self.touch(message.srcid, offset);
                self.touch(peer, offset);
            }
            Recipient::Group(_) => self.touch(message.srcid, offset).own_mid = message.mid,
        }
    }

    /// The number of the last change that has one.
    pub(super) fn change_seq(&self) -> ChangeSeq {
        let chgs = self.changes.iter().map(|(change, _)| change.change_seq);
        chgs.max().unwrap_or_default()
    }

    fn apply_change(&mut self, offset: i64, change: &MessageChange) {
        let message = &mut self.messages[change.mid.get() as usize - 1];
        match &change.change {
            Change::Recall | Change::Delete => {
                message.is_recalled = true;
                message.is_deleted |= change.change == Change::Delete;
                message.msg.clear();
                message.reactions.clear();
            }
            Change::React(emoji) => {
                message.reactions.remove(&change.by);
                if message.is_there() && !emoji.is_empty() {
                    message.reactions.insert(change.by, emoji.clone());
                }
            }
            Change::Edit(msg) => {
                message.msg.clone_from(msg);
                message.edited_at = Some(offset);
            }
            Change::Hide => drop(self.touch(change.by, offset).hidden.insert(change.mid)),
            Change::Clear => self.touch(change.by, offset).clear_mid = change.mid,
        }
        self.changes.push((change.clone(), offset));
        if change.is_own() {
            self.touch(change.by, offset).own_pos = offset;
            return;
        }
        self.event_offset = offset;
        if let Recipient::User(peer) = change.to {
            self.touch(change.by, offset);
            self.touch(peer, offset);
        }
    }

    fn apply_group_change(&mut self, offset: i64, change: &GroupChange) {
        self.event_offset = offset;
        self.group.settings = change.settings.clone();
        self.group.count = change.member_count;
        for &GroupMember {
            uid,
            role,
            muted,
            joined,
        } in &change.members
        {
            let view = self.touch(uid, offset);
            if joined {
                (view.join_pos, view.left_pos) = (offset, None);
                view.join_mid = change.last_mid;
            }
            let join_mid = view.join_mid;
            if role.is_some() {
                self.group.members.insert(uid, Member { muted, join_mid });
            } else {
                view.left_pos = Some(offset);
                self.group.members.remove(&uid);
            }
        }
    }
}

/// A conversation as a user gets it: from the contents of one snapshot, and the user's row of another.
pub(super) struct Seen<'a> {
    pub(super) id: ConversationId,
    pub(super) user: UserId,
    pub(super) contents: &'a Conversation,
    pub(super) view: View,
}

impl Seen<'_> {
    fn to(&self) -> Recipient {
        recipient(self.id, self.user)
    }

    /// Nothing up to here is shown.
    fn unseen_mid(&self) -> Mid {
        match self.contents.group.members.get(&self.user) {
            Some(member) if !self.contents.group.settings.whole_history => member.join_mid,
            _ => Mid::ZERO,
        }
    }

    fn shows(&self, mid: Mid) -> bool {
        let floor = self.unseen_mid().max(self.view.clear_mid);
        let is_hidden = mid <= floor || self.view.hidden.contains(&mid);
        !is_hidden && !self.contents.message(mid).is_deleted
    }

    /// A message as a page has it.
    fn message(&self, mid: Mid) -> Value {
        let message = self.contents.message(mid);
        let mut item = json!({
            "mid": mid.get(), "srcid": message.author.to_string(), "msg": message.msg, "ts": ts(message.sent_at),
            "client_msg_id": message.client_msg_id,
        });
        match self.id {
            ConversationId::Direct(direct) => {
                item["destid"] = direct.peer_of(message.author).to_string().into();
            }
            ConversationId::Group(gid) => item["gid"] = gid.to_string().into(),
        }
        if message.is_recalled {
            item["recalled"] = true.into();
        } else if let Some(edited) = message.edited_at {
            item["edited_ts"] = ts(edited).into();
        }
        if !message.reactions.is_empty() {
            item["reactions"] = json!(message.reactions);
        }
        item
    }

    /// The beginning of the newest message.
    fn last(&self) -> Value {
        let last_mid = self.contents.last_mid();
        if last_mid == Mid::ZERO || !self.shows(last_mid) {
            return Value::Null;
        }
        let mut item = self.message(last_mid);
        let msg = &self.contents.message(last_mid).msg;
        item["msg"] = msg.chars().take(PREVIEW_CHARS).collect::<String>().into();
        item["client_msg_id"] = Value::Null;
        for field in ["edited_ts", "reactions"] {
            item.as_object_mut().unwrap().remove(field);
        }
        item
    }

    /// A row of `/sync`, without the token's part of it.
    pub(super) fn row(&self, at: i64) -> Value {
        let mut row = match self.to() {
            Recipient::User(peer) => self.contact_row(peer),
            Recipient::Group(_) => self.group_row(),
        };
        let at = format!("{}:{at}", self.id.partition());
        let mut more = json!({"last": self.last(), "last_mid": self.contents.last_mid(), "chg": self.contents.change_seq(), "at": at});
        if self.view.own_pos > 0 {
            more["own_pos"] = self.view.own_pos.into();
        }
        let more = more.as_object().unwrap().clone();
        row.as_object_mut().unwrap().extend(more);
        row
    }

    fn contact_row(&self, peer: UserId) -> Value {
        let (view, last_mid) = (&self.view, self.contents.last_mid());
        let is_note = peer == self.user;
        let sent = self.contents.sent_by(peer, last_mid).get();
        let peer_ordinal = if is_note { 0 } else { sent };
        let unread = view.read.map(|(_, n)| (peer_ordinal - n.get()).max(0));
        let ContactFlags {
            favourite,
            pinned,
            muted,
            blocked,
        } = view.flags;
        let mut row = json!({
            "peer": peer.to_string(), "favourite": favourite, "pinned": pinned, "muted": muted, "blocked": blocked, "unread": unread,
            "read_mid": view.read.map(|(mid, _)| mid), "peer_n": peer_ordinal,
        });
        if view.deleted_mid > Mid::ZERO && view.deleted_mid >= last_mid {
            row["deleted"] = true.into();
        }
        row
    }

    fn group_row(&self) -> Value {
        let group = &self.contents.group;
        let (settings, member) = (&group.settings, &group.members[&self.user]);
        let last_mid = self.contents.last_mid();
        let last_is_own =
            last_mid > Mid::ZERO && self.contents.message(last_mid).author == self.user;
        let read_mid = self.view.read_mids();
        let read_mid = read_mid.map(|mid| if last_is_own { last_mid } else { mid });
        let unread = match settings.dissolved {
            true => PerDevice::default(),
            false => read_mid.map(|mid| (last_mid.get() - mid.get()).max(0)),
        };
        json!({
            "gid": self.id.to_string().trim_start_matches("g:"), "name": settings.name, "role": "member", "muted": member.muted,
            "dissolved": settings.dissolved, "member_count": group.count, "whole_history": settings.whole_history,
            "join_mid": member.join_mid, "unread": unread, "read_mid": read_mid,
        })
    }

    /// A page of messages, oldest first. `limit` are looked at, so it may have fewer.
    pub(super) fn messages(&self, after: Mid, limit: usize) -> Value {
        let floor = after.max(self.unseen_mid()).max(self.view.clear_mid).get();
        let mids = floor + 1..=self.contents.last_mid().get();
        let mut mids: Vec<Mid> = mids.map(|mid| mid.try_into().unwrap()).collect();
        let more = mids.len() > limit;
        mids.truncate(limit);
        let next = mids
            .last()
            .filter(|_| more)
            .map(|mid| format!("after_mid={mid}"));
        let shown = mids.into_iter().filter(|mid| self.shows(*mid));
        let items: Vec<Value> = shown.map(|mid| self.message(mid)).collect();
        self.page(items, next)
    }

    fn page(&self, items: Vec<Value>, next: Option<String>) -> Value {
        let mut page = json!({"items": items, "next": next});
        if let ConversationId::Group(_) = self.id {
            page["begins_after_mid"] = self.unseen_mid().get().into();
        }
        page
    }

    /// A page of the changes that concern the user, in the same way.
    pub(super) fn changes(&self, after: ChangesAfter, limit: usize) -> Value {
        let mut changes: Vec<_> = self.contents.changes.iter().collect();
        changes.retain(|(change, at)| match change.is_own() {
            true => change.by == self.user && *at > after.own_pos,
            false => self.concerns(change) && change.change_seq > after.change_seq,
        });
        changes.sort_by_key(|(change, _)| change.is_own());
        let more = changes.len() > limit;
        changes.truncate(limit);
        let next = more.then(|| {
            let own = changes.iter().filter(|(change, _)| change.is_own());
            let own_pos = own.map(|(_, at)| *at).fold(after.own_pos, i64::max);
            let chgs = changes.iter().map(|(change, _)| change.change_seq);
            let change_seq = chgs.fold(after.change_seq, ChangeSeq::max);
            format!("after_chg={change_seq}&after_own_pos={own_pos}")
        });
        let seen = changes
            .into_iter()
            .filter(|(change, _)| change.mid > self.unseen_mid());
        let mut items: Vec<Value> = seen.map(|(change, at)| self.change(change, *at)).collect();
        // Of the reactions to a message the last one has all.
        let mut reacted = BTreeSet::new();
        for item in items
            .iter_mut()
            .rev()
            .filter(|item| item["reactions"].is_object())
        {
            if !reacted.insert(item["mid"].as_i64()) {
                item.as_object_mut().unwrap().remove("reactions");
            }
        }
        self.page(items, next)
    }

    fn change(&self, change: &MessageChange, at: i64) -> Value {
        let mut item = json!({"chg": change.change_seq, "mid": change.mid, "kind": change.change.kind(), "ts": ts(at)});
        if change.is_own() {
            item["own_pos"] = at.into();
        }
        let message = self.contents.message(change.mid);
        let has_text = change.change.msg().is_some() && message.is_there();
        if has_text && self.shows(change.mid) {
            item["msg"] = message.msg.clone().into();
        }
        let is_reaction = change.change.emoji().is_some();
        if is_reaction && message.is_there() && self.shows(change.mid) {
            item["reactions"] = json!(message.reactions);
        }
        item
    }

    fn concerns(&self, change: &MessageChange) -> bool {
        change.by == self.user || !change.change.is_for_one()
    }

    /// Between the last change that concerns the user since joining, and the last one.
    pub(super) fn last_chgs(&self) -> RangeInclusive<ChangeSeq> {
        let since = self.contents.changes.iter();
        let since = since.filter(|(change, at)| self.concerns(change) && *at >= self.view.join_pos);
        let least = since.map(|(change, _)| change.change_seq).max();
        least.unwrap_or_default()..=self.contents.change_seq()
    }

    /// The last of the user's own changes without a number. A user who has joined again may not have learned of those before.
    pub(super) fn own_pos(&self) -> RangeInclusive<i64> {
        let last = self.view.own_pos;
        let least = if last > self.view.join_pos { last } else { 0 };
        least..=last
    }
}

fn ts(offset: i64) -> String {
    TimestampMs(offset).rfc3339().unwrap()
}

/// The conversation between two users, or the group.
pub(super) fn recipient(id: ConversationId, user: UserId) -> Recipient {
    match id {
        ConversationId::Direct(direct) => Recipient::User(direct.peer_of(user)),
        ConversationId::Group(gid) => Recipient::Group(gid),
    }
}
