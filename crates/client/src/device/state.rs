//! What a device knows.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use api::{
    ChangesAfter, ChangesPage, EventFrame, FramedEvent, GroupChangeEvent, HeadFrame, MemberEvent,
    MessageItem, MessagesPage, NextMessages, RawJson, SyncAnswer,
};
use schemas::{
    ClientMsgId, DirectConversation, EventPosition, Mid, Partition, Recipient, SyncToken, UserId,
};
use serde::{Deserialize, Serialize};

use super::chat::{Chat, ChatWith};

/// What a device knows of its user: pure, so that it can be tested and stored. It follows the rules of clients (PROTOCOL W8, W9).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeviceState {
    uid: UserId,
    token: Option<SyncToken>,
    #[serde(with = "pairs")]
    chats: BTreeMap<Recipient, Chat>,
    /// What the pages of a full sync had so far.
    returned: BTreeSet<Recipient>,
    full_syncs: u64,
    #[serde(default)]
    profile: Option<DeviceProfile>,
}

/// What others see of the device's user, and which event says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceProfile {
    /// The name.
    pub nick: String,
    /// An http or https URL.
    #[serde(default)]
    pub avatar: Option<String>,
    /// An object of the application's own: JSON, as it was posted.
    #[serde(default)]
    pub extra: Option<RawJson>,
    /// Where the event is in `chat.events`.
    pub at: EventPosition,
}

impl DeviceState {
    /// The state of a device that knows nothing yet.
    #[must_use]
    pub fn new(uid: UserId) -> Self {
        Self {
            uid,
            token: None,
            chats: BTreeMap::new(),
            returned: BTreeSet::new(),
            full_syncs: 0,
            profile: None,
        }
    }

    /// Whose device it is.
    #[must_use]
    pub fn uid(&self) -> UserId {
        self.uid
    }

    /// `since` of the next sync, of `hello` and of `resume`; `None` before the first sync.
    #[must_use]
    pub fn token(&self) -> Option<&SyncToken> {
        self.token.as_ref()
    }

    /// What pages of a chat have to reflect: `after=` of the calls that fetch them. An older one would undo what is known.
    #[must_use]
    pub fn known_of(&self, key: Recipient) -> Option<SyncToken> {
        let (mut token, chat) = (self.token.clone()?, self.chats.get(&key)?);
        let partition = match key {
            Recipient::User(peer) => DirectConversation::new(self.uid, peer).partition(),
            Recipient::Group(gid) => gid.partition(),
        };
        token.advance(partition, chat.known_to());
        Some(token)
    }

    /// All conversations and groups, deleted contacts too.
    #[must_use]
    pub fn chats(&self) -> &BTreeMap<Recipient, Chat> {
        &self.chats
    }

    /// What others see of the user; `None` if that is not known, or the user has set nothing.
    #[must_use]
    pub fn profile(&self) -> Option<&DeviceProfile> {
        self.profile.as_ref()
    }

    /// The number of a message of the user's with this `client_msg_id`, if the device has it.
    pub(super) fn mid_of(&self, chat: Recipient, client_msg_id: &ClientMsgId) -> Option<Mid> {
        let mut messages = self.chats.get(&chat)?.messages.values();
        let is_this = |message: &&MessageItem| {
            message.srcid == self.uid
                && message.client_msg_id.as_deref() == Some(client_msg_id.as_str())
        };
        messages.find(is_this).map(|message| message.mid)
    }

    /// How often everything was fetched.
    #[must_use]
    pub fn full_syncs(&self) -> u64 {
        self.full_syncs
    }

    /// Takes a page of a sync; whether there is another.
    pub fn take_sync(&mut self, answer: SyncAnswer) -> bool {
        if !self.goes_on(&answer.next) {
            self.returned.clear();
            self.profile = None;
        }
        if let Some(profile) = answer.profile {
            let api::OwnProfile { item, at } = profile;
            self.take_profile(DeviceProfile {
                nick: item.nick,
                avatar: item.avatar,
                extra: item.extra,
                at,
            });
        }
        for row in answer.conversations {
            if let Some(peer) = row.item.peer {
                self.returned_chat(Recipient::User(peer), answer.full)
                    .take_synced_user(row);
            }
        }
        for row in answer.groups {
            self.returned_chat(Recipient::Group(row.gid), answer.full)
                .take_synced_group(row);
        }
        for gid in answer.left {
            self.chats.remove(&Recipient::Group(gid));
        }
        if !answer.more {
            let returned = std::mem::take(&mut self.returned);
            if answer.full {
                self.chats.retain(|key, _| returned.contains(key));
                self.full_syncs += 1;
            }
        }
        self.token = Some(answer.next);
        answer.more
    }

    /// The token of a page is never lower than that of the page before. If it is, another full sync has begun, and the pages before do not count.
    fn goes_on(&self, next: &SyncToken) -> bool {
        self.token.as_ref().is_none_or(|known| {
            let mut partitions = Partition::all();
            next.epoch() == known.epoch()
                && partitions.all(|partition| next.get(partition) >= known.get(partition))
        })
    }

    /// The chat of a row. In a full sync it begins anew: the log may be another one.
    fn returned_chat(&mut self, key: Recipient, full: bool) -> &mut Chat {
        if full && self.returned.insert(key) {
            self.chats.remove(&key);
        }
        self.chats.entry(key).or_insert_with(Chat::with_user)
    }

    /// Whether an event at `at` is ignored: it is below the token, or there is no token yet.
    pub(super) fn knows(&self, at: EventPosition) -> bool {
        let token = self.token.as_ref();
        token.is_none_or(|token| token.covers(at.partition, at.offset))
    }

    /// Takes an event. `None` if it was known already, or changes no chat.
    pub fn take_event(&mut self, event: EventFrame<'_>) -> Option<Recipient> {
        let at = event.at;
        if !self.moves_on(at) {
            return None;
        }
        let uid = self.uid;
        let other = |one: UserId, other: UserId| if one == uid { other } else { one };
        let key = |user: Option<UserId>, gid| match gid {
            Some(gid) => Some(Recipient::Group(gid)),
            None => user.map(Recipient::User),
        };
        match event.body? {
            FramedEvent::Message(message) => {
                let destid = message.destid.map(|destid| other(message.srcid, destid));
                let key = key(destid, message.gid)?;
                self.chat(key)?.take_message(uid, message);
                Some(key)
            }
            FramedEvent::MessageChange(change) => {
                let peer = change.peer.map(|peer| other(change.by, peer));
                let key = key(peer, change.gid)?;
                self.chat(key)?.take_change(uid, at.offset, &change);
                Some(key)
            }
            FramedEvent::ReadPosition(read) => {
                let key = key(read.peer, read.gid)?;
                self.chat(key)?
                    .take_read(Some(read.device), read.mid, read.ordinal);
                Some(key)
            }
            FramedEvent::ContactChange(contact) => {
                let key = Recipient::User(contact.peer);
                self.chat(key)?.take_contact(uid, &contact);
                Some(key)
            }
            FramedEvent::Profile(profile) => {
                if profile.uid == uid {
                    self.take_profile(DeviceProfile {
                        nick: profile.nick.into_owned(),
                        avatar: profile.avatar.map(Cow::into_owned),
                        extra: profile.extra.map(|extra| extra.into_owned().into()),
                        at,
                    });
                }
                None
            }
            FramedEvent::GroupChange(change) => self.take_group_change(change),
        }
    }

    /// A sync may have had a later profile than the event that comes now.
    fn take_profile(&mut self, profile: DeviceProfile) {
        let known = self.profile.as_ref();
        if known.is_none_or(|known| known.at.offset <= profile.at.offset) {
            self.profile = Some(profile);
        }
    }

    /// The chat of an event. A chat with a user begins with any event; a chat with a group only when the user joins it.
    fn chat(&mut self, key: Recipient) -> Option<&mut Chat> {
        match key {
            Recipient::User(_) => Some(self.chats.entry(key).or_insert_with(Chat::with_user)),
            Recipient::Group(_) => self.chats.get_mut(&key),
        }
    }

    fn take_group_change(&mut self, event: GroupChangeEvent<'_>) -> Option<Recipient> {
        let key = Recipient::Group(event.gid);
        let own = event.members.iter().find(|member| member.uid == self.uid);
        let known = self.chats.get_mut(&key);
        let before = known.as_ref().and_then(|chat| match chat.with {
            ChatWith::Group {
                role,
                muted,
                join_mid,
                ..
            } => Some((role, muted, join_mid)),
            ChatWith::User { .. } => None,
        });
        let (role, muted, join_mid) = match (own, before) {
            (Some(MemberEvent { role: None, .. }), _) => {
                self.chats.remove(&key);
                return Some(key);
            }
            (
                Some(&MemberEvent {
                    role: Some(role),
                    muted,
                    joined,
                    ..
                }),
                before,
            ) => {
                let join_mid = before.filter(|_| !joined).map(|(.., mid)| mid);
                (role, muted, join_mid.unwrap_or(event.last_mid))
            }
            (None, before) => before?,
        };
        let with = ChatWith::Group {
            name: event.name.into_owned(),
            role,
            muted,
            dissolved: event.dissolved,
            member_count: event.member_count,
            whole_history: event.whole_history,
            join_mid,
        };
        match known {
            Some(chat) if own.is_none_or(|own| !own.joined) => chat.set_group(with),
            _ => {
                self.chats.insert(key, Chat::joined(with, event.last_mid));
            }
        }
        Some(key)
    }

    /// Takes how far a group has come; it has to be fetched then. A head has the offset of the first event that it stands for, so it is taken even if
    /// that is below the token.
    pub fn take_head(&mut self, head: HeadFrame) -> Option<Recipient> {
        self.moves_on(head.at);
        let key = Recipient::Group(head.gid);
        self.chats.get_mut(&key)?.take_head(&head);
        Some(key)
    }

    /// Takes a token of a ping: everything below it was handed over before.
    pub fn take_ping(&mut self, token: &SyncToken) {
        let Some(own) = &mut self.token else { return };
        for partition in Partition::all() {
            own.advance(partition, token.get(partition));
        }
    }

    /// Moves the token past an event, which is handled by that (W8). Returns whether the event is new: what is below the token is known (W9).
    fn moves_on(&mut self, at: EventPosition) -> bool {
        let Some(token) = &mut self.token else {
            return false;
        };
        let is_new = !token.covers(at.partition, at.offset);
        token.advance(at.partition, at.next());
        is_new
    }

    /// Takes a page of the messages of a chat that were missing. Returns the message after which the next page begins, if there is another. A page of a group
    /// that shows another part of its history than the device knows of is not taken: the device will hear of that, and what it lacks stays missing.
    pub fn take_messages(&mut self, key: Recipient, page: MessagesPage) -> Option<Mid> {
        let next = page.next.and_then(|next| match next {
            NextMessages::After(mid) => Some(mid),
            NextMessages::Before(_) => None,
        });
        let chat = self.chats.get_mut(&key)?;
        if !chat.begins_after(page.begins_after_mid) {
            return None;
        }
        chat.take_fetched(self.uid, page.items, next);
        next
    }

    /// Takes a page of the changes of a chat after `after`, as [`Self::take_messages`] does. Returns the position after which the next page begins, if any.
    pub fn take_changes(
        &mut self,
        key: Recipient,
        after: ChangesAfter,
        page: ChangesPage,
    ) -> Option<ChangesAfter> {
        let chat = self.chats.get_mut(&key)?;
        if !chat.begins_after(page.begins_after_mid) {
            return None;
        }
        chat.take_fetched_changes(after, &page.items, page.next);
        page.next
    }
}

/// JSON has only texts as keys.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer, K: Serialize, V: Serialize>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub(super) fn deserialize<'de, D, K, V>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        D: Deserializer<'de>,
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
    {
        Vec::deserialize(deserializer).map(|pairs: Vec<(K, V)>| pairs.into_iter().collect())
    }
}
