//! What query-api answers.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use schemas::{
    Chg, DeviceClass, GroupId, InboundPosition, Mid, Partition, PerDevice, SyncToken, UserId,
};
use serde::{Deserialize, Deserializer, Serialize, de::Error};

use crate::{Client, ClientError, UserProfile};

/// How fresh an answer must be, and how long query-api may wait until it is.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The answer reflects at least these events, duplicates and refused ones too. At most 64.
    pub after: Vec<InboundPosition>,
    /// It reflects at least what this token of a device covers.
    pub token: Option<SyncToken>,
    /// How long the call may take, at most 30 s; 5 s where absent.
    pub timeout: Option<Duration>,
}

impl ReadOptions {
    /// The answer reflects at least these events; 30 s may pass until it does.
    pub fn after(positions: impl IntoIterator<Item = InboundPosition>) -> Self {
        Self {
            after: positions.into_iter().collect(),
            token: None,
            timeout: Some(Duration::from_secs(30)),
        }
    }

    pub(crate) fn wait(&self) -> Duration {
        self.timeout.unwrap_or_default()
    }

    pub(crate) fn add_to(&self, query: &mut Query) {
        for position in &self.after {
            query.add("after", position);
        }
        if let Some(token) = &self.token {
            query.add("after", token);
        }
        if let Some(timeout) = self.timeout {
            query.add("timeout_ms", timeout.as_millis());
        }
    }
}

/// Which messages of a conversation.
#[derive(Clone, Copy, Debug, Default)]
pub struct MessagesQuery {
    /// Which, and in which order.
    pub order: Order,
    /// How many at most, up to 200; 50 where absent, and 200 for [`Order::Unread`].
    pub limit: Option<u8>,
    /// With the profiles of the users in it.
    pub profiles: bool,
}

/// Which messages of a conversation, and in which order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The newest first.
    #[default]
    Newest,
    /// Those below this number, newest first.
    Before(Mid),
    /// Those above this number, oldest first.
    After(Mid),
    /// Those that the user has not read on this device class, newest first, at most a month old.
    Unread(DeviceClass),
}

/// Which part of a conversation list.
#[derive(Clone, Debug, Default)]
pub struct ConversationsQuery {
    /// How many at most, up to 200; 50 where absent.
    pub limit: Option<u8>,
    /// `next` of the page before.
    pub cursor: Option<String>,
    /// With the profiles of the users in it.
    pub profiles: bool,
}

/// A user's unread messages on one device class.
#[derive(Clone, Debug, Deserialize)]
pub struct Unread {
    /// How many, by sender; nobody is at zero.
    pub unread: BTreeMap<UserId, i64>,
    /// The sum.
    pub total: i64,
    /// Senders whose unread messages can no longer be counted.
    #[serde(default)]
    pub unknown: Vec<UserId>,
    /// With `after`: how far the store had come.
    #[serde(default, deserialize_with = "positions")]
    pub as_of: Vec<InboundPosition>,
}

/// Messages of one conversation.
#[derive(Clone, Debug, Deserialize)]
pub struct Messages {
    /// In the order that was asked for.
    pub items: Vec<Message>,
    /// Where the next page begins; `None` where nothing is left.
    #[serde(deserialize_with = "next_page")]
    pub next: Option<Order>,
    /// Of a group: up to this message it shows the user nothing, who joined behind it; zero where it shows its whole history.
    #[serde(default)]
    pub begins_after_mid: Option<Mid>,
    /// Where asked for: the profiles of the users in it, as of now.
    #[serde(default)]
    pub profiles: BTreeMap<UserId, UserProfile>,
    /// With `after`: how far the stores had come.
    #[serde(default, deserialize_with = "positions")]
    pub as_of: Vec<InboundPosition>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its number in the conversation: 1, 2, 3 …
    pub mid: Mid,
    /// The sender.
    pub srcid: UserId,
    /// The receiver; `None` in a group.
    #[serde(default)]
    pub destid: Option<UserId>,
    /// The group; `None` between two users.
    #[serde(default)]
    pub gid: Option<GroupId>,
    /// The text. In a list only its first 200 characters, where the message itself is not stored, and of a group.
    pub msg: String,
    /// When it was sequenced: RFC 3339, UTC.
    pub ts: String,
    /// The sender's id; `None` where only the beginning of the text is left.
    pub client_msg_id: Option<String>,
    /// Whether it was recalled; then it has no text.
    #[serde(default)]
    pub recalled: bool,
    /// When it was last edited; `None` where it never was, or only the beginning of the text is left.
    #[serde(default)]
    pub edited_ts: Option<String>,
}

/// A part of a user's conversation list.
#[derive(Clone, Debug, Deserialize)]
pub struct Conversations {
    /// Pinned conversations first, then that with the newest message. Only `next` says whether this is the last page.
    pub items: Vec<Conversation>,
    /// `cursor` of the next page; `None` where nothing is left.
    pub next: Option<String>,
    /// Where asked for: the profiles of the users in it, as of now.
    #[serde(default)]
    pub profiles: BTreeMap<UserId, UserProfile>,
    /// With `after`: how far the stores had come.
    #[serde(default, deserialize_with = "positions")]
    pub as_of: Vec<InboundPosition>,
}

/// A conversation as one of its users sees it.
#[derive(Clone, Debug, Deserialize)]
pub struct Conversation {
    /// The other user; the user in a note to oneself. `None` in a group.
    #[serde(default)]
    pub peer: Option<UserId>,
    /// The group; `None` between two users.
    #[serde(default)]
    pub gid: Option<GroupId>,
    /// The group's name.
    #[serde(default)]
    pub name: Option<String>,
    /// The newest message; `None` where the user has hidden or cleared it, or it was deleted.
    pub last: Option<Message>,
    /// The number of the newest message; 0 where there is none.
    pub last_mid: Mid,
    /// The number of the last change; 0 where there is none.
    #[serde(default)]
    pub chg: Chg,
    /// Where in `chat.events` the user has hidden or cleared something last that has no number; 0 where that never was.
    #[serde(default)]
    pub own_pos: i64,
    /// What the user has set for it.
    #[serde(flatten)]
    pub flags: Flags,
    /// How many of the peer's messages, or those in the group, are unread; `None` where they can no longer be counted.
    pub unread: PerDevice<Option<i64>>,
    /// Up to which message the user has read.
    pub read_mid: PerDevice<Mid>,
}

/// Which changes of a conversation.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChangesQuery {
    /// Those behind these.
    pub after: ChangesAfter,
    /// How many at most, up to 200; 50 where absent.
    pub limit: Option<u8>,
}

/// Up to where the changes of a conversation are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangesAfter {
    /// Those with a number, up to this one.
    pub chg: Chg,
    /// What the user has hidden and cleared without a number, up to this offset in `chat.events`.
    pub own_pos: i64,
}

/// Changes of one conversation.
#[derive(Clone, Debug, Deserialize)]
pub struct Changes {
    /// By number, then those without one in the order of the log. Only `next` says whether this is the last page.
    pub items: Vec<Change>,
    /// [`ChangesQuery::after`] of the next page; `None` where nothing is left.
    #[serde(deserialize_with = "next_changes")]
    pub next: Option<ChangesAfter>,
    /// Of a group: up to this message it shows the user nothing, who joined behind it; zero where it shows its whole history.
    #[serde(default)]
    pub begins_after_mid: Option<Mid>,
    /// With `after`: how far the stores had come.
    #[serde(default, deserialize_with = "positions")]
    pub as_of: Vec<InboundPosition>,
}

/// A change to a message, or to what the user sees of the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Change {
    /// Its number among the changes of the conversation: 1, 2, 3 …; 0 where it has none.
    pub chg: Chg,
    /// Of a hide or a clear without a number: where it is in `chat.events`.
    #[serde(default)]
    pub own_pos: Option<i64>,
    /// The message; of a clear the newest that is cleared.
    pub mid: Mid,
    /// `recall`, `edit`, `delete`, `hide` or `clear`.
    pub kind: String,
    /// When: RFC 3339, UTC.
    pub ts: String,
    /// Of an edit the newest text, where the user still sees the message.
    #[serde(default)]
    pub msg: Option<String>,
}

/// What a user has set for a contact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Flags {
    /// Marked as a favourite.
    pub favourite: bool,
    /// Shown at the top of the user's list.
    pub pinned: bool,
    /// No notifications; unread messages count all the same.
    pub muted: bool,
    /// The peer cannot send to the user.
    pub blocked: bool,
}

impl MessagesQuery {
    pub(crate) fn add_to(&self, query: &mut Query) {
        match self.order {
            Order::Newest => {}
            Order::Before(mid) => query.add("before_mid", mid),
            Order::After(mid) => query.add("after_mid", mid),
            Order::Unread(device) => query.add("device", device),
        }
        if let Some(limit) = self.limit {
            query.add("limit", limit);
        }
        if self.profiles {
            query.add("profiles", true);
        }
    }
}

impl ChangesQuery {
    pub(crate) fn add_to(&self, query: &mut Query) {
        query.add("after_chg", self.after.chg);
        if self.after.own_pos > 0 {
            query.add("after_own_pos", self.after.own_pos);
        }
        if let Some(limit) = self.limit {
            query.add("limit", limit);
        }
    }
}

impl Client {
    /// Counts a user's unread messages on one device class.
    ///
    /// # Errors
    /// It was refused, or not answered in time.
    pub async fn unread(
        &self,
        user: UserId,
        device: DeviceClass,
        options: &ReadOptions,
    ) -> Result<Unread, ClientError> {
        let mut query = Query::of(format!("/v1/users/{user}/unread"));
        query.add("device", device);
        options.add_to(&mut query);
        self.get_waiting(&query.path, options.wait()).await
    }

    /// Reads a page of a conversation, as `user` sees it.
    ///
    /// # Errors
    /// It was refused, or not answered in time.
    pub async fn messages(
        &self,
        user: UserId,
        peer: UserId,
        which: &MessagesQuery,
        options: &ReadOptions,
    ) -> Result<Messages, ClientError> {
        let path = format!("/v1/users/{user}/conversations/{peer}/messages");
        let mut query = Query::of(path);
        which.add_to(&mut query);
        options.add_to(&mut query);
        self.get_waiting(&query.path, options.wait()).await
    }

    /// Reads a whole conversation, oldest message first, page by page.
    ///
    /// # Errors
    /// As [`Client::messages`].
    pub async fn history(
        &self,
        user: UserId,
        peer: UserId,
        options: &ReadOptions,
    ) -> Result<Vec<Message>, ClientError> {
        let mut messages = Vec::new();
        let mut next = Some(Order::After(Mid::ZERO));
        while let Some(order) = next {
            let limit = Some(200);
            let which = MessagesQuery {
                order,
                limit,
                ..MessagesQuery::default()
            };
            let page = self.messages(user, peer, &which, options).await?;
            messages.extend(page.items);
            next = page.next;
        }
        Ok(messages)
    }

    /// Lists what was changed in a conversation, as far as it concerns `user`.
    ///
    /// # Errors
    /// It was refused, or not answered in time.
    pub async fn changes(
        &self,
        user: UserId,
        peer: UserId,
        which: &ChangesQuery,
        options: &ReadOptions,
    ) -> Result<Changes, ClientError> {
        let path = format!("/v1/users/{user}/conversations/{peer}/changes");
        let mut query = Query::of(path);
        which.add_to(&mut query);
        options.add_to(&mut query);
        self.get_waiting(&query.path, options.wait()).await
    }

    /// Lists a user's conversations.
    ///
    /// # Errors
    /// It was refused, or not answered in time.
    pub async fn conversations(
        &self,
        user: UserId,
        which: &ConversationsQuery,
        options: &ReadOptions,
    ) -> Result<Conversations, ClientError> {
        let mut query = Query::of(format!("/v1/users/{user}/conversations"));
        if let Some(limit) = which.limit {
            query.add("limit", limit);
        }
        if let Some(cursor) = &which.cursor {
            query.add("cursor", cursor);
        }
        if which.profiles {
            query.add("profiles", true);
        }
        options.add_to(&mut query);
        self.get_waiting(&query.path, options.wait()).await
    }
}

/// A path with its query string. No value needs an escape: they are numbers, words and base64url.
pub(crate) struct Query {
    pub(crate) path: String,
    has_values: bool,
}

impl Query {
    pub(crate) fn of(path: String) -> Self {
        Self {
            path,
            has_values: false,
        }
    }

    pub(crate) fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        let joint = if self.has_values { '&' } else { '?' };
        self.has_values = true;
        write!(self.path, "{joint}{name}={value}").expect("a string takes everything");
    }
}

/// A position of an event, written as one of the other topic.
pub(crate) fn at<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(Partition, i64), D::Error> {
    let text = String::deserialize(deserializer)?;
    let InboundPosition { partition, offset } = text.parse().map_err(D::Error::custom)?;
    Ok((partition, offset))
}

pub(crate) fn positions<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<InboundPosition>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let position = |text: &String| text.parse().map_err(D::Error::custom);
    texts.iter().map(position).collect()
}

/// `before_mid=3` or `after_mid=3`.
fn next_page<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Order>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let unknown = || D::Error::custom(format!("{text:?} names no page"));
    let (name, number) = text.split_once('=').ok_or_else(unknown)?;
    let number: i64 = number.parse().map_err(|_| unknown())?;
    let number = Mid::try_from(number).map_err(D::Error::custom)?;
    match name {
        "before_mid" => Ok(Some(Order::Before(number))),
        "after_mid" => Ok(Some(Order::After(number))),
        _ => Err(unknown()),
    }
}

/// `after_chg=3` or `after_chg=3&after_own_pos=57`.
fn next_changes<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<ChangesAfter>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let parsed = || {
        let numbers = text.strip_prefix("after_chg=")?;
        let (chg, own_pos) = numbers
            .split_once("&after_own_pos=")
            .unwrap_or((numbers, "0"));
        Some(ChangesAfter {
            chg: Chg::try_from(chg.parse::<i64>().ok()?).ok()?,
            own_pos: own_pos.parse().ok()?,
        })
    };
    let unknown = || D::Error::custom(format!("{text:?} names no page of changes"));
    parsed().map(Some).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_page_says_where_the_next_one_begins() {
        let page = r#"{"items":[{"mid":3,"srcid":"1","destid":"2","msg":"a","ts":"2025-11-21T08:00:00.123Z","client_msg_id":null}],"next":"before_mid=3","as_of":["17:45"]}"#;
        let page: Messages = serde_json::from_str(page).unwrap();
        assert_eq!(page.next, Some(Order::Before(page.items[0].mid)));
        assert_eq!(page.as_of, ["17:45".parse().unwrap()]);
        let last: Messages = serde_json::from_str(r#"{"items":[],"next":null}"#).unwrap();
        assert_eq!(last.next, None);
        let wrong = r#"{"items":[],"next":"page=3"}"#;
        assert!(serde_json::from_str::<Messages>(wrong).is_err());
    }

    #[test]
    fn counts_are_by_sender() {
        let unread = r#"{"uid":"1000","device":"pc","unread":{"1001":3},"total":3}"#;
        let unread: Unread = serde_json::from_str(unread).unwrap();
        let sender = UserId::try_from(1001).unwrap();
        assert_eq!(unread.unread, BTreeMap::from([(sender, 3)]));
        assert!(unread.unknown.is_empty() && unread.as_of.is_empty());
    }

    #[test]
    fn a_conversation_may_have_counts_that_are_unknown() {
        let one = r#"{"peer":"1","last":null,"last_mid":0,"unread":{"pc":null,"mobile":2},"read_mid":{"pc":0,"mobile":3}}"#;
        let one: Conversation = serde_json::from_str(one).unwrap();
        assert_eq!((one.unread.pc, one.unread.mobile), (None, Some(2)));
        assert_eq!(one.read_mid.mobile.get(), 3);
        // An older server says nothing of changes.
        assert_eq!((one.chg, one.flags), (Chg::ZERO, Flags::default()));
        let two = r#"{"peer":"1","last":{"mid":3,"srcid":"1","destid":"2","msg":"","ts":"2025-11-21T08:00:00.123Z","client_msg_id":"a","recalled":true},"last_mid":3,"chg":7,"favourite":true,"pinned":false,"muted":false,"blocked":true,"unread":{"pc":0,"mobile":0},"read_mid":{"pc":0,"mobile":0}}"#;
        let two: Conversation = serde_json::from_str(two).unwrap();
        assert_eq!(two.chg.get(), 7);
        assert!(two.flags.favourite && two.flags.blocked && !two.flags.pinned);
        assert!(two.last.unwrap().recalled);
    }

    #[test]
    fn changes_have_a_text_where_it_is_edited_and_seen() {
        let page = r#"{"items":[{"chg":1,"mid":3,"kind":"recall","ts":"2025-11-21T08:00:00.123Z"},{"chg":3,"mid":4,"kind":"edit","ts":"2025-11-21T08:00:00.123Z","msg":"new"}],"next":"after_chg=3"}"#;
        let page: Changes = serde_json::from_str(page).unwrap();
        assert_eq!(
            (page.items[0].chg.get(), page.items[0].msg.as_deref()),
            (1, None)
        );
        assert_eq!(page.items[1].msg.as_deref(), Some("new"));
        let next = |text| {
            let page = json!({"items": [], "next": text});
            let page: Changes = serde_json::from_value(page).unwrap();
            page.next.map(|next| (next.chg.get(), next.own_pos))
        };
        assert_eq!(page.next.map(|next| next.chg), Some(page.items[1].chg));
        assert_eq!(next("after_chg=3"), Some((3, 0)));
        assert_eq!(next("after_chg=3&after_own_pos=57"), Some((3, 57)));
        let wrong = r#"{"items":[],"next":"after_mid=3"}"#;
        assert!(serde_json::from_str::<Changes>(wrong).is_err());
    }

    #[test]
    fn options_become_a_query_string() {
        let mut query = Query::of("/x".to_owned());
        query.add("limit", 2);
        ReadOptions::after(["1:2".parse().unwrap()]).add_to(&mut query);
        assert_eq!(query.path, "/x?limit=2&after=1:2&timeout_ms=30000");
    }
}
