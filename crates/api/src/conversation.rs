//! Conversations as a user's list shows them.

use schemas::{ChangeSeq, GroupId, InboundPosition, Mid, PerDevice, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    contact::Flags,
    message::MessageItem,
    profile::{ProfileItem, ProfileItems},
    values::{ByClass, is_zero},
};

/// A part of a user's conversation list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ConversationsPage {
    /// Pinned conversations first, then that with the newest message. Contacts that the user has deleted, and contacts and groups without
    /// messages, are left out. A page may hold fewer than `limit`; only `next` tells whether it is the last.
    pub items: Vec<ConversationItem>,
    /// `cursor` of the next page; null where nothing is left.
    #[schema(example = "AgAAAAGapVWYewAAAAAAAAPp0NMkeHGdR8Y")]
    pub next: Option<String>,
    /// With `profiles=true`: by user; users who have set none are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<std::collections::BTreeMap<String, ProfileItem>>)]
    pub profiles: Option<ProfileItems>,
    /// With `after=`: how far the stores had come, by partition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<String>>, example = json!(["17:45"]))]
    pub as_of: Vec<InboundPosition>,
}

/// One conversation.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ConversationItem {
    /// The other side; the user in a note to oneself. Absent in a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "1001")]
    pub peer: Option<UserId>,
    /// The group; absent between two users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "5000")]
    pub gid: Option<GroupId>,
    /// The group's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "Lunch")]
    pub name: Option<String>,
    /// Its newest message; null where the user has hidden or cleared it, or it was deleted. Of a group the first 200 characters of the text.
    pub last: Option<MessageItem>,
    /// The number of its newest message; 0 where there is none.
    #[schema(value_type = i64, minimum = 0, example = 3)]
    pub last_mid: Mid,
    /// The number of its last change, which its list of changes has; 0 where there is none.
    #[serde(rename = "chg", default)]
    #[schema(value_type = i64, required = true, minimum = 0, example = 1)]
    pub change_seq: ChangeSeq,
    /// Where in `chat.events` the user has hidden or cleared something last that has no number; absent where that never was.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schema(value_type = Option<i64>, minimum = 1, example = 57)]
    pub own_pos: i64,
    /// What the user has set for it; nothing in a group.
    #[serde(flatten)]
    pub flags: Flags,
    /// Unread messages of the other side, or in the group, by class of device; null where they cannot be counted any more.
    #[schema(value_type = ByClass<Option<i64>>)]
    pub unread: PerDevice<Option<i64>>,
    /// Up to where the user has read, by class of device.
    #[schema(value_type = ByClass<i64>)]
    pub read_mid: PerDevice<Mid>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_may_have_counts_that_are_unknown() {
        let one = r#"{"peer":"1","last":null,"last_mid":0,"unread":{"pc":null,"mobile":2},"read_mid":{"pc":0,"mobile":3}}"#;
        let one: ConversationItem = serde_json::from_str(one).unwrap();
        assert_eq!((one.unread.pc, one.unread.mobile), (None, Some(2)));
        assert_eq!(one.read_mid.mobile.get(), 3);
        // An older server says nothing of changes.
        assert_eq!(
            (one.change_seq, one.flags),
            (ChangeSeq::ZERO, Flags::default())
        );
        let two = r#"{"peer":"1","last":{"mid":3,"srcid":"1","destid":"2","msg":"","ts":"2025-11-21T08:00:00.123Z","client_msg_id":"a","recalled":true},"last_mid":3,"chg":7,"favourite":true,"pinned":false,"muted":false,"blocked":true,"unread":{"pc":0,"mobile":0},"read_mid":{"pc":0,"mobile":0}}"#;
        let item: ConversationItem = serde_json::from_str(two).unwrap();
        assert_eq!(item.change_seq.get(), 7);
        assert!(item.flags.favourite && item.flags.blocked && !item.flags.pinned);
        assert_eq!(serde_json::to_string(&item).unwrap(), two);
    }
}
