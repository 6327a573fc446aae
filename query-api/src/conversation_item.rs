//! A conversation as a user's list shows it.

use std::collections::BTreeMap;

use message_store::{ContactRow, LastMessage, MessageRow, MessageState, ReadUpTo};
use schemas::{ContactFlags, ConversationId, DirectConversation, GroupId, Mid, Recipient, UserId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    by_class::ByClass, flags::Flags, listed_group::ListedGroup, message_item::MessageItem,
};

/// Identifies a message.
pub(crate) type MessageKey = (ConversationId, Mid);

/// One conversation.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ConversationItem {
    /// The other side; the user in a note to oneself. Absent in a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "1001")]
    peer: Option<UserId>,
    /// The group; absent between two users.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "5000")]
    gid: Option<GroupId>,
    /// The group's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "Lunch")]
    name: Option<String>,
    /// Its newest message; null where the user has hidden or cleared it, or it was deleted. Of a group the first 200 characters of the text.
    last: Option<MessageItem>,
    /// The number of its newest message; 0 where there is none.
    #[schema(minimum = 0, example = 3)]
    last_mid: i64,
    /// The number of its last change, which its list of changes has; 0 where there is none.
    #[schema(minimum = 0, example = 1)]
    chg: i64,
    /// Where in `chat.events` the user has hidden or cleared something last that has no number; absent where that never was.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, example = 57)]
    own_pos: Option<i64>,
    /// What the user has set for it; nothing in a group.
    #[serde(flatten)]
    flags: Flags,
    /// Unread messages of the other side, or in the group, by class of device; null where they cannot be counted any more.
    unread: ByClass<Option<i64>>,
    /// Up to where the user has read, by class of device.
    read_mid: ByClass<i64>,
}

pub(crate) fn last_message_key(row: &ContactRow) -> Option<MessageKey> {
    Some((conversation_of(row).into(), row.visible_last()?.mid))
}

fn conversation_of(row: &ContactRow) -> DirectConversation {
    DirectConversation::new(row.contact.uid, row.contact.peer)
}

/// The newest message; where its row is missing, the preview is shown. Either of the two may be older than a recall.
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
        Some(row) => row.into(),
        None => {
            let to = Recipient::User(conversation.peer_of(last.srcid));
            MessageItem::preview(last, to)
        }
    };
    Some(if is_recalled { item.recalled() } else { item })
}

impl ConversationItem {
    /// Takes the newest message out of `messages`.
    pub(crate) fn of_contact(
        row: ContactRow,
        messages: &mut BTreeMap<MessageKey, MessageRow>,
    ) -> Self {
        let conversation = conversation_of(&row);
        let full = last_message_key(&row).and_then(|key| messages.remove(&key));
        let last = row.visible_last().cloned();
        let last_mid = row.contact.last.as_ref().map_or(0, |last| last.mid.get());
        let read = row.read_mids();
        let unread = ByClass {
            pc: unread(&row, row.contact.read.pc),
            mobile: unread(&row, row.contact.read.mobile),
        };
        Self {
            peer: Some(row.contact.peer),
            gid: None,
            name: None,
            last: last.and_then(|last| last_item(last, full, conversation)),
            last_mid,
            chg: row.contact.chg.get(),
            own_pos: Some(row.contact.own_pos).filter(|pos| *pos > 0),
            flags: row.flags().into(),
            unread,
            read_mid: ByClass {
                pc: read.pc.get(),
                mobile: read.mobile.get(),
            },
        }
    }

    pub(crate) fn of_group(group: ListedGroup) -> Self {
        let (unread, read_mid) = (group.unread(), group.read_mids());
        Self {
            peer: None,
            gid: Some(group.head.gid),
            last: group.last(),
            last_mid: group.head.last_mid().get(),
            chg: group.head.chg.get(),
            own_pos: Some(group.membership.own_pos).filter(|pos| *pos > 0),
            flags: ContactFlags::default().into(),
            unread: unread.map(Some).into(),
            read_mid: read_mid.map(Mid::get).into(),
            name: Some(group.head.settings.name),
        }
    }

    /// The other side, or in a group who sent the newest message.
    pub(crate) fn user(&self) -> Option<UserId> {
        let sender = || self.last.as_ref().map(MessageItem::srcid);
        self.peer.or_else(sender)
    }
}

/// The number of messages of the peer after the last one read. A note to oneself is never unread.
fn unread(row: &ContactRow, read: ReadUpTo) -> Option<i64> {
    if row.contact.uid == row.contact.peer {
        return Some(0);
    }
    let unread = row.contact.peer_n.get() - read.n?.get();
    Some(unread.max(0))
}
