//! Groups, and their members.

use schemas::{
    ChangeSeq, EventPosition, GroupId, GroupRole, InboundPosition, Mid, PerDevice, UserId,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    message::MessageItem,
    values::{ByClass, is_zero},
};

/// A group.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct GroupAnswer {
    /// The group.
    #[schema(value_type = String, example = "5000")]
    pub gid: GroupId,
    /// Its name.
    #[schema(example = "Lunch")]
    pub name: String,
    /// Its owner.
    #[schema(value_type = String, example = "1000")]
    pub owner: UserId,
    /// Anybody may join.
    pub open: bool,
    /// Members see what was sent before they joined.
    pub whole_history: bool,
    /// Only admins and the owner send.
    pub muted: bool,
    /// It has ended. Who was a member then reads it on.
    pub dissolved: bool,
    /// How many members there are; 0 once it is dissolved.
    #[schema(minimum = 0, example = 3)]
    pub member_count: i64,
    /// The number of its newest message; 0 where there is none.
    #[schema(value_type = i64, minimum = 0, example = 9)]
    pub last_mid: Mid,
    /// The number of its last change of a message; 0 where there is none.
    #[schema(value_type = i64, minimum = 0, example = 1)]
    #[serde(rename = "chg")]
    pub change_seq: ChangeSeq,
    /// What the group has of the user who asks.
    pub member: MemberItem,
    /// With `after=`: how far the store had come, by partition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<String>>, example = json!(["17:45"]))]
    pub as_of: Vec<InboundPosition>,
}

/// Members of a group.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct GroupMembersPage {
    /// The members, by uid.
    pub items: Vec<MemberItem>,
    /// `cursor` of the next page; null where nothing is left.
    #[schema(value_type = Option<String>, example = "1002")]
    pub next: Option<UserId>,
    /// With `after=`: how far the store had come, by partition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<String>>, example = json!(["17:45"]))]
    pub as_of: Vec<InboundPosition>,
}

/// A member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberItem {
    /// The user.
    #[schema(value_type = String, example = "1001")]
    pub uid: UserId,
    /// `member`, `admin` or `owner`.
    #[schema(value_type = String, example = "member")]
    pub role: GroupRole,
    /// Does not send.
    pub muted: bool,
    /// The number of the newest message when the user joined; 0 where there was none.
    #[schema(value_type = i64, minimum = 0, example = 3)]
    pub join_mid: Mid,
}

/// A part of a user's groups.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct GroupsPage {
    /// The groups, by gid. Those that the user has left are left out, so a page may hold fewer than `limit`; only `next` tells whether it is
    /// the last.
    pub items: Vec<GroupItem>,
    /// `cursor` of the next page; null where nothing is left.
    #[schema(value_type = Option<String>, example = "5000")]
    pub next: Option<GroupId>,
    /// With `after=`: how far the stores had come, by partition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<String>>, example = json!(["17:45"]))]
    pub as_of: Vec<InboundPosition>,
}

/// A group, as one of its members has it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct GroupItem {
    /// The group.
    #[schema(value_type = String, example = "5000")]
    pub gid: GroupId,
    /// Its name.
    #[schema(example = "Lunch")]
    pub name: String,
    /// The user's role: `member`, `admin` or `owner`.
    #[schema(value_type = String, example = "member")]
    pub role: GroupRole,
    /// Whether the user is muted, and does not send.
    pub muted: bool,
    /// It has ended. Who was a member then reads it on.
    pub dissolved: bool,
    /// How many members there are; 0 once it is dissolved.
    #[schema(minimum = 0, example = 3)]
    pub member_count: i64,
    /// Whether the user sees what was sent before joining.
    pub whole_history: bool,
    /// The number of the newest message when the user joined; 0 where there was none.
    #[schema(value_type = i64, minimum = 0, example = 0)]
    pub join_mid: Mid,
    /// Its newest message, with the first 200 characters of the text; null where there is none, the user has hidden or cleared it or joined
    /// later, or it was deleted.
    pub last: Option<MessageItem>,
    /// The number of its newest message; 0 where there is none.
    #[schema(value_type = i64, minimum = 0, example = 9)]
    pub last_mid: Mid,
    /// The number of its last change of a message; 0 where there is none.
    #[schema(value_type = i64, minimum = 0, example = 1)]
    #[serde(rename = "chg")]
    pub change_seq: ChangeSeq,
    /// Where in `chat.events` the user has hidden or cleared something last that has no number; absent where that never was.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schema(value_type = Option<i64>, minimum = 1, example = 57)]
    pub own_pos: i64,
    /// Unread messages, by class of device.
    #[schema(value_type = ByClass<i64>)]
    pub unread: PerDevice<i64>,
    /// Up to where nothing counts as unread, by class of device: read, sent, cleared, or there before the user joined.
    #[schema(value_type = ByClass<i64>)]
    pub read_mid: PerDevice<Mid>,
    /// Its last event, in `chat.events`.
    #[schema(value_type = String, example = "8:41")]
    pub at: EventPosition,
}
