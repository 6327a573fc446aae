//! A conversation as a user's list shows it.

use std::collections::BTreeMap;

use api::{ConversationItem, Flags, MessageItem};
use message_store::{ContactRow, LastMessage, MessageRow, MessageState, ReadUpTo};
use schemas::{ConversationId, DirectConversation, Mid, Recipient, UserId};

use crate::{listed_group::ListedGroup, message_item};

/// Identifies a message.
pub(crate) type MessageKey = (ConversationId, Mid);

pub(crate) fn last_message_key(row: &ContactRow) -> Option<MessageKey> {
    Some((conversation_of(row).into(), row.visible_last()?.mid))
}

fn conversation_of(row: &ContactRow) -> DirectConversation {
    DirectConversation::new(row.contact.uid, row.contact.peer)
}

/// The newest message: its row or, if the row is missing, the preview. Either may be older than a recall.
fn last_item(
    last: LastMessage,
    row: Option<MessageRow>,
    conversation: DirectConversation,
) -> Option<MessageItem> {
    if row
        .as_ref()
        .is_some_and(|row| row.state == MessageState::Deleted)
    {
        return None;
    }
    let is_recalled = last.state == MessageState::Recalled;
    let item = match row {
        Some(row) => message_item::of_row(row),
        None => {
            let to = Recipient::User(conversation.peer_of(last.srcid));
            message_item::preview(last, to)
        }
    };
    Some(if is_recalled {
        message_item::recalled(item)
    } else {
        item
    })
}

/// A conversation between two users; takes the newest message out of `messages`.
pub(crate) fn of_contact(
    row: ContactRow,
    messages: &mut BTreeMap<MessageKey, MessageRow>,
) -> ConversationItem {
    let conversation = conversation_of(&row);
    let full = last_message_key(&row).and_then(|key| messages.remove(&key));
    let last = row.visible_last().cloned();
    let last_mid = row.contact.last.as_ref().map(|last| last.mid);
    ConversationItem {
        peer: Some(row.contact.peer),
        gid: None,
        name: None,
        last: last.and_then(|last| last_item(last, full, conversation)),
        last_mid: last_mid.unwrap_or_default(),
        change_seq: row.contact.change_seq,
        own_pos: row.contact.own_pos,
        flags: row.flags().into(),
        unread: row.contact.read.map(|read| unread(&row, read)),
        read_mid: row.read_mids(),
    }
}

/// A group.
pub(crate) fn of_group(group: ListedGroup) -> ConversationItem {
    ConversationItem {
        peer: None,
        gid: Some(group.head.gid),
        last: group.last(),
        last_mid: group.head.last_mid(),
        change_seq: group.head.change_seq,
        own_pos: group.membership.own_pos,
        flags: Flags::default(),
        unread: group.unread().map(Some),
        read_mid: group.read_mids(),
        name: Some(group.head.settings.name),
    }
}

/// The peer, or in a group the sender of the newest message.
pub(crate) fn user(item: &ConversationItem) -> Option<UserId> {
    let sender = || item.last.as_ref().map(|last| last.srcid);
    item.peer.or_else(sender)
}

/// The number of messages of the peer after the last one read. A note to oneself is never unread.
fn unread(row: &ContactRow, read: ReadUpTo) -> Option<i64> {
    if row.contact.uid == row.contact.peer {
        return Some(0);
    }
    let unread = row.contact.peer_ordinal.get() - read.ordinal?.get();
    Some(unread.max(0))
}
