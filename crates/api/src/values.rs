//! Values that several types have.

use std::{fmt, marker::PhantomData};

use schemas::{GroupId, Recipient, TimestampMs, UserId, command::Malformed};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// A number for each class of device.
// What OpenAPI says of `schemas::PerDevice`.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is only described")]
pub struct ByClass<T> {
    pc: T,
    mobile: T,
}

/// JSON as it was written, with numbers of any length.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// The text.
    #[must_use]
    pub fn into_string(self) -> String {
        Box::<str>::from(self.0).into()
    }

    /// A text or a body, as JSON.
    pub(crate) fn of(value: &(impl Serialize + ?Sized)) -> Self {
        let raw = serde_json::value::to_raw_value(value);
        Self(raw.expect("texts, and structs of named fields, can be JSON"))
    }
}

impl TryFrom<String> for RawJson {
    type Error = serde_json::Error;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        RawValue::from_string(text).map(Self)
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for RawJson {}

impl From<Box<RawValue>> for RawJson {
    fn from(raw: Box<RawValue>) -> Self {
        Self(raw)
    }
}

/// A `T` that is written as an object. By itself serde's derive also takes an array of a struct's fields in their order, which no
/// OpenAPI description mentions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfMap<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for OfMap<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(OfMap(PhantomData))
    }
}

/// `field` or `gid`, of which one is there: to whom it is, or of which conversation.
///
/// # Errors
/// None of them is there, or both.
pub(crate) fn recipient(
    field: &'static str,
    user: Option<UserId>,
    gid: Option<GroupId>,
) -> Result<Recipient, Malformed> {
    let missing = "is missing; must be a user, or gid in its place a group";
    recipient_or_none(field, user, gid)?.ok_or_else(|| Malformed::new(field, missing))
}

/// The same where neither may be there.
pub(crate) fn recipient_or_none(
    field: &str,
    user: Option<UserId>,
    gid: Option<GroupId>,
) -> Result<Option<Recipient>, Malformed> {
    match (user, gid) {
        (Some(_), Some(_)) => {
            let problem = format!("is given beside {field}; must be absent");
            Err(Malformed::new("gid", problem))
        }
        (Some(user), None) => Ok(Some(Recipient::User(user))),
        (None, gid) => Ok(gid.map(Recipient::Group)),
    }
}

/// A user or a group: 63 bits, more than a number of JavaScript has. From a device a number up to 2^53 is taken, too.
#[expect(dead_code, reason = "it is only described")]
#[derive(ToSchema)]
#[schema(pattern = "^[1-9][0-9]{0,18}$", examples("1000"))]
pub struct Id(String);

/// The id that a device has chosen for itself.
#[expect(dead_code, reason = "it is only described")]
#[derive(ToSchema)]
#[schema(pattern = "^[A-Za-z0-9._-]{1,64}$", examples("phone-1"))]
pub struct ShortId(String);

/// A text of a device's own choice: at most 64 characters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct ShortText(pub String);

impl TryFrom<String> for ShortText {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.chars().count() {
            ..=64 => Ok(Self(text)),
            count => Err(format!("has {count} characters; must be 64 at most")),
        }
    }
}

impl ShortText {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A position in a log: partition and offset.
#[expect(dead_code, reason = "it is only described")]
#[derive(ToSchema)]
#[schema(pattern = "^[0-9]{1,2}:[0-9]{1,19}$", examples("17:42"))]
pub struct At(String);

/// A time: RFC 3339 in UTC.
#[expect(dead_code, reason = "it is only described")]
#[derive(ToSchema)]
#[schema(format = DateTime)]
pub struct Time(String);

/// A class of devices; a user has a read position on each.
#[expect(dead_code, reason = "it is only described")]
#[derive(ToSchema)]
#[schema(as = DeviceClass, rename_all = "lowercase")]
pub enum DeviceClassName {
    Pc,
    Mobile,
}

/// RFC 3339 in UTC, always with three decimals. A time outside the years 0 to 9999, which no store takes, becomes the nearest one inside.
#[must_use]
pub fn utc(TimestampMs(ms): TimestampMs) -> String {
    const FIRST_MS: i64 = -62_167_219_200_000;
    const LAST_MS: i64 = 253_402_300_799_999;
    let inside = TimestampMs(ms.clamp(FIRST_MS, LAST_MS)).rfc3339();
    inside.expect("every time of these years has this form")
}

/// Whether a field is left out that is there only if it is true.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
pub(crate) fn is_false(value: &bool) -> bool {
    !*value
}

/// Whether a field is left out whose number is zero.
pub(crate) fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A field that an earlier version leaves out, or writes as null.
pub(crate) fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_no_array_of_its_fields() {
        #[derive(Debug, Deserialize)]
        struct Point {
            x: i64,
        }

        let from = serde_json::from_str::<Object<Point>>;
        assert_eq!(from(r#"{"x":1}"#).unwrap().0.x, 1);
        for text in ["[1]", "null", "5"] {
            let error = from(text).unwrap_err().to_string();
            assert!(error.contains("expected an object"), "{error}");
        }
    }

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
