//! What is new for a device, and the devices of a user.

use schemas::{DeviceClass, DeviceId, GroupId, Partition, SyncToken, UserId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    Client, ClientError, Conversation, ListedGroup, ReadOptions,
    profiles::{raw, write_raw},
    queries::{Query, at},
};

/// What has changed for a user since a token, or a page of it.
#[derive(Clone, Debug, Deserialize)]
pub struct SyncAnswer {
    /// Conversations between two users, as they are now.
    pub conversations: Vec<SyncedConversation>,
    /// Groups, as they are now.
    pub groups: Vec<ListedGroup>,
    /// Groups that the user has left.
    pub left: Vec<GroupId>,
    /// The user's own profile; `None` if it has not changed, the user has set none, or the query API is of an earlier version.
    #[serde(default)]
    pub profile: Option<OwnProfile>,
    /// `since` of the next call: to be kept once the answer is stored.
    pub next: SyncToken,
    /// The next call goes on with this answer.
    pub more: bool,
    /// It is everything that the user has: what none of its pages has, the device drops.
    pub full: bool,
}

/// What others see of the device's user, and which event says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnProfile {
    /// The name.
    pub nick: String,
    /// An http or https URL.
    #[serde(default)]
    pub avatar: Option<String>,
    /// An object of the application's own: JSON, as it was posted.
    #[serde(default, deserialize_with = "raw", serialize_with = "write_raw")]
    pub extra: Option<String>,
    /// Where the event is in `chat.events`.
    #[serde(deserialize_with = "at", serialize_with = "write_at")]
    pub at: (Partition, i64),
}

/// A conversation between two users.
#[derive(Clone, Debug, Deserialize)]
pub struct SyncedConversation {
    /// As in the list; the newest message with the first 200 characters of its text, and without `client_msg_id`.
    #[serde(flatten)]
    pub conversation: Conversation,
    /// How many messages the other has sent.
    pub peer_n: i64,
    /// Its last event, in `chat.events`; `None` for a row that an older version wrote.
    #[serde(default, deserialize_with = "some_at")]
    pub at: Option<(Partition, i64)>,
    /// The user has deleted the contact, and there is no newer message.
    #[serde(default)]
    pub deleted: bool,
}

/// A device of a user.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct UserDevice {
    /// Its own id.
    pub device: DeviceId,
    /// Its class.
    pub class: DeviceClass,
    /// What the user calls it.
    pub name: String,
    /// Its newest token; it may be of another version.
    pub token: String,
    /// When it had handled what the token covers: RFC 3339, UTC.
    pub seen_at: String,
}

#[derive(Deserialize)]
struct Devices {
    items: Vec<UserDevice>,
}

impl Client {
    /// Asks what has changed for a user since a token; everything without one. Up to `limit` rows, at most 1,000; 200 where absent.
    ///
    /// # Errors
    /// It was refused, or not answered in time.
    pub async fn sync(
        &self,
        user: UserId,
        since: Option<&SyncToken>,
        limit: Option<u16>,
    ) -> Result<SyncAnswer, ClientError> {
        let mut query = Query::of(format!("/v1/users/{user}/sync"));
        if let Some(since) = since {
            query.add("since", since);
        }
        if let Some(limit) = limit {
            query.add("limit", limit);
        }
        let wait = ReadOptions::default().wait();
        self.get_waiting(&query.path, wait).await
    }

    /// Lists the devices of a user, the one seen last first.
    ///
    /// # Errors
    /// It was refused, or not answered in time.
    pub async fn devices(&self, user: UserId) -> Result<Vec<UserDevice>, ClientError> {
        let path = format!("/v1/users/{user}/devices");
        let devices: Devices = self.get(&path).await?;
        Ok(devices.items)
    }
}

fn write_at<S: Serializer>(
    (partition, offset): &(Partition, i64),
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{partition}:{offset}"))
}

fn some_at<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<(Partition, i64)>, D::Error> {
    at(deserializer).map(Some)
}
