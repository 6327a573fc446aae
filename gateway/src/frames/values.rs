//! Values in frames.

use schemas::{EventPosition, InboundPosition, Partition, TimestampMs};
use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

/// A user or a group: 63 bits, more than a number of JavaScript has. From a device a number up to 2^53 is taken, too.
#[expect(dead_code, reason = "it is only described")]
#[derive(ToSchema)]
#[schema(pattern = "^[1-9][0-9]{0,18}$", examples("1000"))]
pub(super) struct Id(String);

/// The id that a device has chosen for itself.
#[expect(dead_code, reason = "it is only described")]
#[derive(ToSchema)]
#[schema(pattern = "^[A-Za-z0-9._-]{1,64}$", examples("phone-1"))]
pub(super) struct ShortId(String);

/// A text of a device's own choice: at most 64 characters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct ShortText(pub(crate) String);

impl TryFrom<String> for ShortText {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.chars().count() {
            ..=64 => Ok(Self(text)),
            count => Err(format!("has {count} characters; must be 64 at most")),
        }
    }
}

/// A position in a log: partition and offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ToSchema)]
#[schema(value_type = String, pattern = "^[0-9]{1,2}:[0-9]{1,19}$", examples("17:42"))]
pub(crate) struct At(pub(super) (Partition, i64));

impl From<InboundPosition> for At {
    fn from(InboundPosition { partition, offset }: InboundPosition) -> Self {
        Self((partition, offset))
    }
}

impl From<EventPosition> for At {
    fn from(EventPosition { partition, offset }: EventPosition) -> Self {
        Self((partition, offset))
    }
}

impl Serialize for At {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self((partition, offset)) = self;
        serializer.collect_str(&format_args!("{}:{offset}", partition.get()))
    }
}

/// A time: RFC 3339 in UTC. One that has no such form, which no store takes, is the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ToSchema)]
#[schema(value_type = String, format = DateTime)]
pub(crate) struct Time(pub(crate) TimestampMs);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.0.rfc3339().or_else(|| TimestampMs(0).rfc3339());
        serializer.serialize_str(&text.unwrap_or_default())
    }
}

/// A class of devices; a user has a read position on each.
#[expect(dead_code, reason = "it is only described")]
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(super) enum DeviceClass {
    Pc,
    Mobile,
}
