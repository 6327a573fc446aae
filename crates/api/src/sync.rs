//! What is new for a device.

use schemas::{EventPosition, GroupId, SyncToken};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    conversation::ConversationItem,
    group::GroupItem,
    profile::{ProfileItem, ProfileItems},
    values::{RawJson, is_false},
};

/// What has changed for a user since a token.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SyncAnswer {
    /// Conversations with users in which something has changed, as they are now. Of the newest message they have the first 200 characters, and no `client_msg_id`.
    pub conversations: Vec<SyncedConversation>,
    /// Groups of the user in which something has changed, as they are now.
    pub groups: Vec<GroupItem>,
    /// Groups that the user has left, or was removed from. None in a full answer.
    #[schema(value_type = Vec<String>, example = json!(["5001"]))]
    pub left: Vec<GroupId>,
    /// The user's own profile, as it is now. Absent where it has not changed, and where the user has set none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<OwnProfile>,
    /// `since` of the next call. At most 512 characters while a partition has less than 2^40 events.
    #[schema(value_type = String, example = "AQAAAAABAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")]
    pub next: SyncToken,
    /// Whether this is a page of an answer: the next call, with `next`, goes on with it.
    pub more: bool,
    /// Whether this is everything that the user has, not only what has changed. All pages of one answer say the same: what none of them has, the
    /// device drops.
    pub full: bool,
    /// With `profiles=true`: by user; users who have set none are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<std::collections::BTreeMap<String, ProfileItem>>)]
    pub profiles: Option<ProfileItems>,
}

/// What others see of the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(from = "OwnProfileMembers")]
pub struct OwnProfile {
    /// What others see.
    #[serde(flatten)]
    pub item: ProfileItem,
    /// Its event, in `chat.events`: an earlier one of a gateway is older than this.
    #[schema(value_type = String, example = "40:7")]
    pub at: EventPosition,
}

/// As it is read: what is flattened cannot have JSON as it was written.
#[derive(Deserialize)]
struct OwnProfileMembers {
    nick: String,
    #[serde(default)]
    avatar: Option<String>,
    #[serde(default)]
    extra: Option<RawJson>,
    #[serde(default)]
    ts: String,
    at: EventPosition,
}

impl From<OwnProfileMembers> for OwnProfile {
    fn from(members: OwnProfileMembers) -> Self {
        let OwnProfileMembers {
            nick,
            avatar,
            extra,
            ts,
            at,
        } = members;
        let item = ProfileItem {
            nick,
            avatar,
            extra,
            ts,
        };
        Self { item, at }
    }
}

/// A conversation between two users.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SyncedConversation {
    /// As in the list.
    #[serde(flatten)]
    pub item: ConversationItem,
    /// How many messages the other side has sent: a device counts on from here by the `n` of events.
    #[schema(minimum = 0, example = 2)]
    #[serde(rename = "peer_n")]
    pub peer_ordinal: i64,
    /// Its last event, in `chat.events`. Absent for a row that an older version wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "8:41")]
    pub at: Option<EventPosition>,
    /// The user has deleted the contact, and there is no newer message: lists leave it out. Absent where not.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schema(value_type = Option<bool>)]
    pub deleted: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_has_its_numbers_as_they_were_posted() {
        let text = r#"{"nick":"Ann","extra":{"id":123456789012345678901234567890,"price":1.50},"ts":"t","at":"40:7"}"#;
        let profile: OwnProfile = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&profile).unwrap(), text);
    }
}
