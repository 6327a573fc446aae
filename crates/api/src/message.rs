//! Messages: posted, read, and as they happen.

use std::{borrow::Cow, fmt, str::FromStr};

use schemas::{
    ClientMsgId, GroupId, InboundPosition, Mid, Reactions, TimestampMs, UserId,
    command::{Malformed, SendMessage},
    event::Message,
    serde_as_text,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    profile::{ProfileItem, ProfileItems},
    values::{Id, Time, is_false, recipient, utc},
};

/// A text from one user to another, or to a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageBody {
    /// The sender: 1 to 9223372036854775807. A number is taken up to 2^53.
    #[schema(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "1001")]
    pub srcid: UserId,
    /// The receiver; the sender too, in a note to oneself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = "^[1-9][0-9]{0,18}$", example = "1000")]
    pub destid: Option<UserId>,
    /// In place of destid: a group of which the sender is a member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = "^[1-9][0-9]{0,18}$")]
    pub gid: Option<GroupId>,
    /// The sender's own id of this send, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it is the same message. If neither this field
    /// nor the header `Idempotency-Key` has one, it is generated and returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64)]
    pub client_msg_id: Option<String>,
    /// 1 byte to 16 KiB (as configured) of UTF-8 without NUL.
    #[schema(min_length = 1, example = "hello")]
    pub msg: String,
}

impl MessageBody {
    /// The command, and the id that was made because the body has none.
    ///
    /// # Errors
    /// A field is wrong.
    pub fn into_command(self) -> Result<(SendMessage, Option<Uuid>), Malformed> {
        let to = recipient("destid", self.destid, self.gid)?;
        let generated = self.client_msg_id.is_none().then(Uuid::now_v7);
        let id = self.client_msg_id;
        let id = id.unwrap_or_else(|| generated.unwrap_or_default().to_string());
        let id = ClientMsgId::try_from(id).map_err(|wrong| Malformed::new("client_msg_id", wrong));
        let send = SendMessage {
            srcid: self.srcid,
            to,
            client_msg_id: id?,
            msg: self.msg,
            by_user: false,
        };
        Ok((send.checked()?, generated))
    }
}

impl From<&SendMessage> for MessageBody {
    fn from(send: &SendMessage) -> Self {
        let (destid, gid) = send.to.uid_or_gid();
        Self {
            srcid: send.srcid,
            destid,
            gid,
            client_msg_id: Some(send.client_msg_id.to_string()),
            msg: send.msg.clone(),
        }
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MessageItem {
    /// Its number in the conversation: 1, 2, 3 …
    #[schema(value_type = i64, minimum = 1, example = 3)]
    pub mid: Mid,
    /// The sender.
    #[schema(value_type = String, example = "1001")]
    pub srcid: UserId,
    /// The receiver; absent in a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "1000")]
    pub destid: Option<UserId>,
    /// The group; absent between two users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "5000")]
    pub gid: Option<GroupId>,
    /// The newest text; empty where the message was recalled. As the newest message of a list only its first 200 characters where it is a group's, in `/sync`, and where the message itself is no longer (or not yet) stored.
    #[schema(example = "hello")]
    pub msg: String,
    /// When it was sequenced, UTC.
    #[schema(example = "2025-11-21T08:00:00.123Z")]
    pub ts: String,
    /// The sender's own id of the send; null where `msg` is only the first 200 characters.
    #[schema(example = "0199f3c0-7a54-7cc1-a4fb-2d2a3c1b9f10")]
    pub client_msg_id: Option<String>,
    /// Whether it was recalled; absent where not.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schema(value_type = Option<bool>)]
    pub recalled: bool,
    /// When it was last edited, UTC; absent where it never was, and where `msg` is only the first 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "2025-11-21T08:01:00.123Z")]
    pub edited_ts: Option<String>,
    /// The emoji of each user who has reacted, by uid; absent if there is none, and if `msg` is only the first 200 characters.
    #[serde(default, skip_serializing_if = "Reactions::is_empty")]
    #[schema(value_type = Option<HashMap<String, String>>, example = json!({"1001": "👍"}))]
    pub reactions: Reactions,
}

/// Messages of one conversation.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct MessagesPage {
    /// The messages, ordered as the parameters say. Those that the user has hidden or cleared, or that were deleted, are left out, so a page
    /// may hold fewer than `limit`; only `next` tells whether it is the last.
    pub items: Vec<MessageItem>,
    /// The parameter that goes on where this page ends, `before_mid=…` or `after_mid=…`; null where nothing is left.
    #[schema(value_type = Option<String>, example = "before_mid=3")]
    pub next: Option<NextMessages>,
    /// Of a group: up to this message it shows the user nothing, who joined behind it; 0 where it shows its whole history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, minimum = 0, example = 2)]
    pub begins_after_mid: Option<Mid>,
    /// With `profiles=true`: by user; users who have set none are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<std::collections::BTreeMap<String, ProfileItem>>)]
    pub profiles: Option<ProfileItems>,
    /// With `after=`: how far the stores had come, by partition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<String>>, example = json!(["17:45"]))]
    pub as_of: Vec<InboundPosition>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = MessageBody)]
pub struct MessageEvent<'a> {
    #[schema(value_type = i64)]
    pub mid: Mid,
    /// Its number among those of the sender; absent in a group.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub ordinal: Option<i64>,
    #[schema(value_type = Id)]
    pub srcid: UserId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    pub destid: Option<UserId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    pub gid: Option<GroupId>,
    pub msg: Cow<'a, str>,
    #[schema(value_type = Time)]
    pub ts: String,
    pub client_msg_id: Cow<'a, str>,
}

impl<'a> MessageEvent<'a> {
    pub(crate) fn new(message: &'a Message, ts: TimestampMs) -> Self {
        let (destid, gid) = message.to.uid_or_gid();
        Self {
            mid: message.mid,
            ordinal: destid.map(|_| message.ordinal.get()),
            srcid: message.srcid,
            destid,
            gid,
            msg: message.msg.as_str().into(),
            ts: utc(ts),
            client_msg_id: message.client_msg_id.as_str().into(),
        }
    }
}

impl From<MessageEvent<'_>> for MessageItem {
    fn from(event: MessageEvent<'_>) -> Self {
        Self {
            mid: event.mid,
            srcid: event.srcid,
            destid: event.destid,
            gid: event.gid,
            msg: event.msg.into_owned(),
            ts: event.ts,
            client_msg_id: Some(event.client_msg_id.into_owned()),
            recalled: false,
            edited_ts: None,
            reactions: Reactions::new(),
        }
    }
}

/// The page after another one, as the parameter that asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextMessages {
    /// `before_mid`: those below this number, newest first.
    Before(Mid),
    /// `after_mid`: those above this number, oldest first.
    After(Mid),
}

impl fmt::Display for NextMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Before(mid) => write!(f, "before_mid={mid}"),
            Self::After(mid) => write!(f, "after_mid={mid}"),
        }
    }
}

impl FromStr for NextMessages {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("{text:?} names no page");
        let (name, number) = text.split_once('=').ok_or_else(unknown)?;
        let number: i64 = number.parse().map_err(|_| unknown())?;
        let number = Mid::try_from(number).map_err(|_| unknown())?;
        match name {
            "before_mid" => Ok(Self::Before(number)),
            "after_mid" => Ok(Self::After(number)),
            _ => Err(unknown()),
        }
    }
}

serde_as_text!(NextMessages);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_where_the_next_one_begins() {
        let text = r#"{"items":[{"mid":3,"srcid":"1","destid":"2","msg":"a","ts":"2025-11-21T08:00:00.123Z","client_msg_id":null}],"next":"before_mid=3","as_of":["17:45"]}"#;
        let page: MessagesPage = serde_json::from_str(text).unwrap();
        assert_eq!(page.next, Some(NextMessages::Before(page.items[0].mid)));
        assert_eq!(page.as_of, ["17:45".parse().unwrap()]);
        assert_eq!(serde_json::to_string(&page).unwrap(), text);
        let last: MessagesPage = serde_json::from_str(r#"{"items":[],"next":null}"#).unwrap();
        assert_eq!(last.next, None);
        let wrong = r#"{"items":[],"next":"page=3"}"#;
        assert!(serde_json::from_str::<MessagesPage>(wrong).is_err());
    }
}
