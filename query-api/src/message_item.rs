//! A message as every answer shows it.

use api::{MessageItem, utc};
use message_store::{LastMessage, MessageRow, MessageState};
use schemas::{Reactions, Recipient};

/// The preview of a message whose row is missing or was not read.
pub(crate) fn preview(last: LastMessage, to: Recipient) -> MessageItem {
    let (destid, gid) = to.uid_or_gid();
    MessageItem {
        mid: last.mid,
        srcid: last.srcid,
        destid,
        gid,
        msg: last.preview,
        ts: utc(last.ts),
        client_msg_id: None,
        recalled: last.state == MessageState::Recalled,
        edited_ts: None,
        reactions: Reactions::new(),
    }
}

/// The same message once it is recalled.
pub(crate) fn recalled(item: MessageItem) -> MessageItem {
    MessageItem {
        msg: String::new(),
        recalled: true,
        edited_ts: None,
        reactions: Reactions::new(),
        ..item
    }
}

/// A message whose row is read.
pub(crate) fn of_row(row: MessageRow) -> MessageItem {
    let (destid, gid) = row.to.uid_or_gid();
    MessageItem {
        mid: row.mid,
        srcid: row.srcid,
        destid,
        gid,
        msg: row.msg,
        ts: utc(row.ts),
        client_msg_id: Some(row.client_msg_id.into_string()),
        recalled: row.state == MessageState::Recalled,
        edited_ts: row.edited_ts.map(utc),
        reactions: row.reactions,
    }
}
