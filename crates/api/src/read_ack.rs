//! Read-acks: posted, and the read positions that they move.

use schemas::{
    DeviceClass, GroupId, Mid, Ordinal, UserId,
    command::{Malformed, ReadAck},
    event::ReadPosition,
};
use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

use crate::{
    fields::{device, read_up_to},
    values::{DeviceClassName, Id, recipient},
};

/// "uid, on this device class, has read the conversation with peer, or the group, up to mid."
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadAckBody {
    /// Who read.
    #[schema(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "1000")]
    pub uid: UserId,
    /// Whose messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = "^[1-9][0-9]{0,18}$", example = "1001")]
    pub peer: Option<UserId>,
    /// In place of peer: a group of which the reader is a member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = "^[1-9][0-9]{0,18}$")]
    pub gid: Option<GroupId>,
    /// `pc` or `mobile`.
    #[serde(deserialize_with = "device")]
    #[schema(value_type = String, pattern = "^(pc|mobile)$", example = "mobile")]
    pub device: DeviceClass,
    /// Up to which message, 1 or more, as a number or a string; absent or `latest` for everything sequenced so far.
    #[serde(
        default,
        deserialize_with = "read_up_to",
        serialize_with = "number_or_latest"
    )]
    #[schema(value_type = Option<i64>, minimum = 1, example = 3)]
    pub mid: Option<Mid>,
    /// The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. If neither this field
    /// nor the header `Idempotency-Key` has one, it is generated and returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64)]
    pub command_id: Option<String>,
}

fn number_or_latest<S: Serializer>(mid: &Option<Mid>, serializer: S) -> Result<S::Ok, S::Error> {
    match mid {
        Some(mid) => mid.serialize(serializer),
        None => serializer.serialize_str("latest"),
    }
}

impl ReadAckBody {
    /// The command.
    ///
    /// # Errors
    /// A field is wrong.
    pub fn into_command(self) -> Result<ReadAck, Malformed> {
        Ok(ReadAck {
            uid: self.uid,
            to: recipient("peer", self.peer, self.gid)?,
            device: self.device,
            mid: self.mid,
        })
    }
}

impl From<&ReadAck> for ReadAckBody {
    fn from(ack: &ReadAck) -> Self {
        let (peer, gid) = ack.to.uid_or_gid();
        Self {
            uid: ack.uid,
            peer,
            gid,
            device: ack.device,
            mid: ack.mid,
            command_id: None,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = ReadBody)]
pub struct ReadEvent {
    #[schema(value_type = Id)]
    pub uid: UserId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    pub peer: Option<UserId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    pub gid: Option<GroupId>,
    #[schema(value_type = DeviceClassName)]
    pub device: DeviceClass,
    #[schema(value_type = i64)]
    pub mid: Mid,
    /// How many messages the peer had sent up to there; absent where that is not known, and in a group.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub ordinal: Option<i64>,
}

impl ReadEvent {
    pub(crate) fn new(read: &ReadPosition) -> Self {
        let (peer, gid) = read.to.uid_or_gid();
        Self {
            uid: read.uid,
            peer,
            gid,
            device: read.device,
            mid: read.mid,
            ordinal: read.ordinal.map(Ordinal::get),
        }
    }
}
