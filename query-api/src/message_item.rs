//! A message as every answer shows it.

use message_store::{LastMessage, MessageRow, MessageState};
use schemas::{GroupId, Recipient, TimestampMs, UserId};
use serde::Serialize;
use utoipa::ToSchema;

/// A message.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MessageItem {
    /// Its number in the conversation: 1, 2, 3 …
    #[schema(minimum = 1, example = 3)]
    mid: i64,
    /// The sender.
    #[schema(value_type = String, example = "1001")]
    srcid: UserId,
    /// The receiver; absent in a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "1000")]
    destid: Option<UserId>,
    /// The group; absent between two users.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "5000")]
    gid: Option<GroupId>,
    /// The newest text; empty where the message was recalled. As the newest message of a list only its first 200 characters where it is a group's, in `/sync`, and where the message itself is no longer (or not yet) stored.
    #[schema(example = "hello")]
    msg: String,
    /// When it was sequenced, UTC.
    #[schema(example = "2025-11-21T08:00:00.123Z")]
    ts: String,
    /// The sender's own id of the send; null where `msg` is only the first 200 characters.
    #[schema(example = "0199f3c0-7a54-7cc1-a4fb-2d2a3c1b9f10")]
    client_msg_id: Option<String>,
    /// Whether it was recalled; absent where not.
    #[serde(skip_serializing_if = "is_false")]
    #[schema(value_type = Option<bool>)]
    recalled: bool,
    /// When it was last edited, UTC; absent where it never was, and where `msg` is only the first 200 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "2025-11-21T08:01:00.123Z")]
    edited_ts: Option<String>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(value: &bool) -> bool {
    !*value
}

impl MessageItem {
    /// The beginning of a message whose row is not there, or not read.
    pub(crate) fn preview(last: LastMessage, to: Recipient) -> Self {
        let (destid, gid) = receiver(to);
        Self {
            mid: last.mid.get(),
            srcid: last.srcid,
            destid,
            gid,
            msg: last.preview,
            ts: utc(last.ts),
            client_msg_id: None,
            recalled: last.state == MessageState::Recalled,
            edited_ts: None,
        }
    }

    pub(crate) fn srcid(&self) -> UserId {
        self.srcid
    }

    /// The same message once it is recalled.
    pub(crate) fn recalled(self) -> Self {
        Self {
            msg: String::new(),
            recalled: true,
            edited_ts: None,
            ..self
        }
    }
}

impl From<MessageRow> for MessageItem {
    fn from(row: MessageRow) -> Self {
        let (destid, gid) = receiver(row.to);
        Self {
            mid: row.mid.get(),
            srcid: row.srcid,
            destid,
            gid,
            msg: row.msg,
            ts: utc(row.ts),
            client_msg_id: Some(row.client_msg_id.into_string()),
            recalled: row.state == MessageState::Recalled,
            edited_ts: row.edited_ts.map(utc),
        }
    }
}

/// `destid` and `gid`.
fn receiver(to: Recipient) -> (Option<UserId>, Option<GroupId>) {
    match to {
        Recipient::User(destid) => (Some(destid), None),
        Recipient::Group(gid) => (None, Some(gid)),
    }
}

/// RFC 3339 in UTC, always with three decimals. A time outside the years 0 to 9999, which no store takes, becomes the nearest one inside.
pub(crate) fn utc(TimestampMs(ms): TimestampMs) -> String {
    const FIRST_MS: i64 = -62_167_219_200_000;
    const LAST_MS: i64 = 253_402_300_799_999;
    TimestampMs(ms.clamp(FIRST_MS, LAST_MS))
        .rfc3339()
        .expect("every time of these years has this form")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_decimals() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_763_712_000_120, "2025-11-21T08:00:00.120Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (i64::MAX, "9999-12-31T23:59:59.999Z"),
            (i64::MIN, "0000-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(utc(TimestampMs(ms)), text);
        }
    }
}
