//! Changes to messages: posted, read, and as they happen.

use std::{borrow::Cow, fmt, str::FromStr};

use schemas::{
    Change, ChangeMessage, ChangeSeq, GroupId, InboundPosition, MessageChange, Mid, Ordinal,
    Reactions, TimestampMs, UserId, command::Malformed, serde_as_text,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    fields::mid,
    values::{Id, Time, recipient, utc},
};

/// "by changes message mid of the conversation with peer, or of the group."
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageChangeBody {
    /// Who makes the change.
    #[schema(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "1001")]
    pub by: UserId,
    /// The other user of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = "^[1-9][0-9]{0,18}$", example = "1000")]
    pub peer: Option<UserId>,
    /// In place of peer: a group of which `by` is a member. Its admins recall and delete everybody's messages, at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = "^[1-9][0-9]{0,18}$")]
    pub gid: Option<GroupId>,
    /// Which message, 1 or more, as a number or a string.
    #[serde(deserialize_with = "mid")]
    #[schema(value_type = i64, minimum = 1, example = 3)]
    pub mid: Mid,
    /// `recall` takes its text away for both sides, `delete` the message as a whole (only where the rules allow it), `edit` gives it another
    /// text: these three are the author's. `hide` hides it from `by`, `clear` it and all before it.
    #[schema(pattern = "^(recall|delete|edit|hide|clear)$", example = "recall")]
    pub kind: String,
    /// Of an edit only: the new text, as of a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub msg: Option<String>,
    /// The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. If neither this field
    /// nor the header `Idempotency-Key` has one, it is generated and returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64)]
    pub command_id: Option<String>,
}

impl MessageChangeBody {
    /// The command.
    ///
    /// # Errors
    /// A field is wrong.
    pub fn into_command(self) -> Result<ChangeMessage, Malformed> {
        Ok(ChangeMessage {
            by: self.by,
            to: recipient("peer", self.peer, self.gid)?,
            mid: self.mid,
            change: Change::new(&self.kind, self.msg)?,
        })
    }
}

impl From<&ChangeMessage> for MessageChangeBody {
    fn from(change: &ChangeMessage) -> Self {
        let (peer, gid) = change.to.uid_or_gid();
        Self {
            by: change.by,
            peer,
            gid,
            mid: change.mid,
            kind: change.change.kind().to_owned(),
            msg: change.change.msg().map(str::to_owned),
            command_id: None,
        }
    }
}

/// "by reacts with emoji to message mid of the conversation with peer, or of the group."
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReactionBody {
    /// The user who reacts.
    #[schema(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "1001")]
    pub by: UserId,
    /// The other user of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = "^[1-9][0-9]{0,18}$", example = "1000")]
    pub peer: Option<UserId>,
    /// In place of peer: a group of which `by` is a member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = "^[1-9][0-9]{0,18}$")]
    pub gid: Option<GroupId>,
    /// Which message, 1 or more, as a number or a string.
    #[serde(deserialize_with = "mid")]
    #[schema(value_type = i64, minimum = 1, example = 3)]
    pub mid: Mid,
    /// One emoji, fully qualified, of at most 32 bytes. It replaces the user's former reaction to the message; an empty one takes that back.
    #[schema(max_length = 32, example = "👍")]
    pub emoji: String,
    /// The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. If neither this field
    /// nor the header `Idempotency-Key` has one, it is generated and returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64)]
    pub command_id: Option<String>,
}

impl ReactionBody {
    /// The command.
    ///
    /// # Errors
    /// A field is wrong.
    pub fn into_command(self) -> Result<ChangeMessage, Malformed> {
        Ok(ChangeMessage {
            by: self.by,
            to: recipient("peer", self.peer, self.gid)?,
            mid: self.mid,
            change: Change::react("emoji", self.emoji)?,
        })
    }

    /// The body of a command; `None` if it is another change to a message.
    #[must_use]
    pub fn of(change: &ChangeMessage) -> Option<Self> {
        let (peer, gid) = change.to.uid_or_gid();
        Some(Self {
            by: change.by,
            peer,
            gid,
            mid: change.mid,
            emoji: change.change.emoji()?.to_owned(),
            command_id: None,
        })
    }
}

/// Changes of one conversation.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ChangesPage {
    /// The changes, by number, then what the user has hidden and cleared without one, in the order of the log. What other users hide and clear is left out, and of a group what concerns messages from before
    /// joining, so a page may hold fewer than `limit`; only `next` tells whether it is the last.
    pub items: Vec<ChangeItem>,
    /// The parameter that goes on where this page ends; null where nothing is left.
    #[schema(value_type = Option<String>, example = "after_chg=1")]
    pub next: Option<ChangesAfter>,
    /// Of a group: up to this message it shows the user nothing, who joined behind it; 0 where it shows its whole history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, minimum = 0, example = 2)]
    pub begins_after_mid: Option<Mid>,
    /// With `after=`: how far the stores had come, by partition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<String>>, example = json!(["17:45"]))]
    pub as_of: Vec<InboundPosition>,
}

/// A change to a message, or to what the user sees of the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangeItem {
    /// Its number among the changes of the conversation: 1, 2, 3 … From rule version 4 on a hide and a clear have none: 0.
    #[schema(value_type = i64, minimum = 0, example = 1)]
    #[serde(rename = "chg")]
    pub change_seq: ChangeSeq,
    /// Of one without a number: where it is in `chat.events`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, example = 57)]
    pub own_pos: Option<i64>,
    /// The message; of a clear the newest that is cleared.
    #[schema(value_type = i64, minimum = 1, example = 3)]
    pub mid: Mid,
    /// `recall`, `edit`, `delete` (a recall after which the message is not shown at all), `hide` or `clear` (both for the user only), or `react`.
    #[schema(value_type = String, example = "recall")]
    pub kind: Cow<'static, str>,
    /// When, UTC.
    #[schema(example = "2025-11-21T08:01:00.123Z")]
    pub ts: String,
    /// Of an edit the newest text of the message, which may be that of a later edit. Absent where the message was recalled since, or the
    /// user does not see it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub msg: Option<String>,
    /// Of the page's last reaction to a message: the emoji of each user who has reacted to the message by now, by uid. Absent as `msg` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<HashMap<String, String>>, example = json!({"1001": "👍"}))]
    pub reactions: Option<Reactions>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = ChangeBody)]
pub struct ChangeEvent<'a> {
    #[schema(value_type = Id)]
    pub by: UserId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    pub peer: Option<UserId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    pub gid: Option<GroupId>,
    #[schema(value_type = i64)]
    pub mid: Mid,
    pub kind: Cow<'static, str>,
    /// 0 of a hide or a clear from rule version 4 on: they have no number among the changes of the conversation.
    #[schema(value_type = i64)]
    #[serde(rename = "chg")]
    pub change_seq: ChangeSeq,
    #[schema(value_type = Time)]
    pub ts: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub msg: Option<Cow<'a, str>>,
    /// Of a reaction: the emoji of `by` from now on; empty if the former one is taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emoji: Option<Cow<'a, str>>,
    /// Of a clear, as of a read position.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub ordinal: Option<i64>,
}

impl<'a> ChangeEvent<'a> {
    pub(crate) fn new(change: &'a MessageChange, ts: TimestampMs) -> Self {
        let (peer, gid) = change.to.uid_or_gid();
        Self {
            by: change.by,
            peer,
            gid,
            mid: change.mid,
            kind: change.change.kind().into(),
            change_seq: change.change_seq,
            ts: utc(ts),
            msg: change.change.msg().map(Cow::from),
            emoji: change.change.emoji().map(Cow::from),
            ordinal: change.ordinal.map(Ordinal::get),
        }
    }
}

/// Up to where the changes of a conversation are known, as the parameters that ask for those after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangesAfter {
    /// Those with a number, up to this one.
    pub change_seq: ChangeSeq,
    /// What the user has hidden and cleared without a number, up to this offset in `chat.events`.
    pub own_pos: i64,
}

impl fmt::Display for ChangesAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after_chg={}", self.change_seq)?;
        match self.own_pos {
            0 => Ok(()),
            own_pos => write!(f, "&after_own_pos={own_pos}"),
        }
    }
}

impl FromStr for ChangesAfter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = || {
            let numbers = text.strip_prefix("after_chg=")?;
            let (change_seq, own_pos) = numbers
                .split_once("&after_own_pos=")
                .unwrap_or((numbers, "0"));
            Some(Self {
                change_seq: ChangeSeq::try_from(change_seq.parse::<i64>().ok()?).ok()?,
                own_pos: own_pos.parse().ok()?,
            })
        };
        parsed().ok_or_else(|| format!("{text:?} names no page of changes"))
    }
}

serde_as_text!(ChangesAfter);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_have_a_text_where_it_is_edited_and_seen() {
        let page = r#"{"items":[{"chg":1,"mid":3,"kind":"recall","ts":"2025-11-21T08:00:00.123Z"},{"chg":3,"mid":4,"kind":"edit","ts":"2025-11-21T08:00:00.123Z","msg":"new"}],"next":"after_chg=3"}"#;
        let page: ChangesPage = serde_json::from_str(page).unwrap();
        assert_eq!(
            (page.items[0].change_seq.get(), page.items[0].msg.as_deref()),
            (1, None)
        );
        assert_eq!(page.items[1].msg.as_deref(), Some("new"));
        assert_eq!(
            page.next.map(|next| next.change_seq),
            Some(page.items[1].change_seq)
        );
        for (text, after) in [
            ("after_chg=3", (3, 0)),
            ("after_chg=3&after_own_pos=57", (3, 57)),
        ] {
            let page = json!({"items": [], "next": text});
            let page: ChangesPage = serde_json::from_value(page).unwrap();
            let next = page.next.unwrap();
            assert_eq!((next.change_seq.get(), next.own_pos), after);
            assert_eq!(next.to_string(), text);
        }
        let wrong = r#"{"items":[],"next":"after_mid=3"}"#;
        assert!(serde_json::from_str::<ChangesPage>(wrong).is_err());
    }
}
