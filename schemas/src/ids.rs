use std::{
    fmt,
    marker::PhantomData,
    num::NonZeroI64,
    str::FromStr,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use time::{OffsetDateTime, format_description::BorrowedFormatItem, macros::format_description};

/// A value outside its type's range. The text says what is wrong and what is valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidValue(String);

impl InvalidValue {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// The id of a user: 1 … 2^63−1. In JSON it is a decimal string; numbers are accepted up to 2^53.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserId(NonZeroI64);

/// The largest integer that every JSON implementation keeps exact (2^53).
const LARGEST_JSON_INTEGER: u64 = 1 << 53;

impl UserId {
    /// 1 … 2^63−1.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0.get()
    }
}

impl TryFrom<i64> for UserId {
    type Error = InvalidValue;

    fn try_from(uid: i64) -> Result<Self, InvalidValue> {
        match NonZeroI64::new(uid) {
            Some(uid) if uid.is_positive() => Ok(Self(uid)),
            _ => Err(InvalidValue::new(format!(
                "is {uid}; must be a uid, from 1 to 9223372036854775807"
            ))),
        }
    }
}

impl FromStr for UserId {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        // i64's own parser also takes a leading "+" and zeros, and then two texts would name one user.
        let canonical = text
            .as_bytes()
            .first()
            .is_some_and(|c| (b'1'..=b'9').contains(c));
        match text.parse() {
            Ok(uid) if canonical => Ok(Self(uid)),
            _ => Err(InvalidValue::new(format!(
                "is {:?}; must be a uid, a decimal integer from 1 to 9223372036854775807",
                Excerpt(text)
            ))),
        }
    }
}

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "u{}", self.0)
    }
}

impl Serialize for UserId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for UserId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_id("uid", deserializer)
    }
}

/// Reads an id of 63 bits, `name`: a decimal string, or a number up to 2^53.
pub(crate) fn deserialize_id<'de, D: Deserializer<'de>, T>(
    name: &'static str,
    deserializer: D,
) -> Result<T, D::Error>
where
    T: FromStr<Err = InvalidValue> + TryFrom<i64, Error = InvalidValue>,
{
    struct Visitor<T>(&'static str, PhantomData<T>);

    impl<T> de::Visitor<'_> for Visitor<T>
    where
        T: FromStr<Err = InvalidValue> + TryFrom<i64, Error = InvalidValue>,
    {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let name = self.0;
            write!(
                f,
                "a {name}, as a decimal string from \"1\" to \"9223372036854775807\""
            )
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
            if number > LARGEST_JSON_INTEGER {
                return Err(E::custom(format!(
                    "is the number {number}, above 2^53, where JSON loses integers; must be the string \"{number}\""
                )));
            }
            T::try_from(number.cast_signed()).map_err(E::custom)
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
            T::try_from(number).map_err(E::custom)
        }
    }

    deserializer.deserialize_any(Visitor(name, PhantomData))
}

/// Shows, by `Debug`, the first 40 characters of a text that may be too long for an error message.
pub struct Excerpt<'a>(pub &'a str);

impl fmt::Debug for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut: String = self.0.chars().take(40).collect();
        let more = if cut.len() < self.0.len() { "…" } else { "" };
        write!(f, "{cut:?}{more}")
    }
}

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(try_from = "i64", into = "i64")]
        pub struct $name(i64);

        impl $name {
            /// The value before the first.
            pub const ZERO: Self = Self(0);

            /// 0, 1, 2 …
            #[must_use]
            pub const fn get(self) -> i64 {
                self.0
            }

            /// This plus one.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl TryFrom<i64> for $name {
            type Error = InvalidValue;

            fn try_from(value: i64) -> Result<Self, InvalidValue> {
                if value < 0 {
                    return Err(InvalidValue::new(format!("is {value}; must be 0 or more")));
                }
                Ok(Self(value))
            }
        }

        impl From<$name> for i64 {
            fn from(value: $name) -> Self {
                value.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

counter! {
    /// A message's number in its conversation: 1, 2, 3 …; 0 is before the first.
    Mid
}

counter! {
    /// How many messages a user had sent in a conversation, up to some message. The unread count is newest − read.
    Ordinal
}

counter! {
    /// A change's number among the recalls, deletes and edits of its conversation, and the hides and clears from before rule version 4: 1, 2, 3 …; 0
    /// is before the first. A device that has a conversation up to (mid, chg) has all of it that other devices have.
    ChangeSeq
}

/// Log time: milliseconds since 1970, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct TimestampMs(pub i64);

impl TimestampMs {
    /// RFC 3339 in UTC, always with three decimals; `None` if it is beyond the calendar.
    #[must_use]
    pub fn rfc3339(self) -> Option<String> {
        const FORMAT: &[BorrowedFormatItem<'_>] = format_description!(
            "[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z"
        );
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000_000)
            .ok()?
            .format(FORMAT)
            .ok()
    }
}

/// The wall-clock time; never use it for what the log decides. 0 before 1970.
impl From<SystemTime> for TimestampMs {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// An id that a caller chooses: a text of 1–64 bytes without control characters.
macro_rules! chosen_id {
    ($(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        pub struct $name(String);

        impl $name {
            /// The maximum length, in bytes.
            pub const MAX_BYTES: usize = 64;

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The id as text.
            #[must_use]
            pub fn into_string(self) -> String {
                self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidValue;

            fn try_from(text: String) -> Result<Self, InvalidValue> {
                checked_id(text, Self::MAX_BYTES).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

chosen_id! {
    /// The sender's own id of a send: 1–64 bytes of UTF-8 without control characters. A UUIDv7 is best.
    #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(try_from = "String")]
    ClientMsgId
}

chosen_id! {
    /// The id of a command other than a send, by which a repeat of it is recognised: 1–64 bytes without control characters.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    CommandId
}

fn checked_id(text: String, max_bytes: usize) -> Result<String, InvalidValue> {
    let wrong = if text.is_empty() {
        "is empty".to_owned()
    } else if text.len() > max_bytes {
        format!("has {} bytes", text.len())
    } else if !is_printable_ascii(&text) && text.chars().any(char::is_control) {
        "has a control character".to_owned()
    } else {
        return Ok(text);
    };
    Err(InvalidValue::new(format!(
        "{wrong}; must be 1 to {max_bytes} bytes of UTF-8 without control characters"
    )))
}

/// Looks at all bytes, without an end at the first that is none: so the compiler takes several at a time, and most ids need no more.
fn is_printable_ascii(text: &str) -> bool {
    let is_printable = |byte| (b' '..=b'~').contains(&byte);
    text.bytes()
        .fold(true, |all, byte| all & is_printable(byte))
}

impl From<ClientMsgId> for String {
    fn from(ClientMsgId(text): ClientMsgId) -> Self {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(uid: i64) -> UserId {
        UserId::try_from(uid).unwrap()
    }

    #[test]
    fn a_uid_has_one_text_only() {
        assert_eq!(
            "9223372036854775807".parse::<UserId>().unwrap().get(),
            i64::MAX
        );
        for text in [
            "",
            "0",
            "-1",
            "+1",
            "01",
            " 1",
            "1 ",
            "1.0",
            "9223372036854775808",
            "x",
        ] {
            assert!(text.parse::<UserId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_uid_is_a_string_in_json_and_a_small_number_is_accepted() {
        assert_eq!(serde_json::to_string(&user(7)).unwrap(), "\"7\"");
        assert_eq!(serde_json::from_str::<UserId>("\"7\"").unwrap(), user(7));
        assert_eq!(
            serde_json::from_str::<UserId>("9007199254740992").unwrap(),
            user(1 << 53)
        );
        for json in ["9007199254740993", "0", "-1", "1.5", "null", "true", "\"\""] {
            assert!(serde_json::from_str::<UserId>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn a_client_msg_id_is_bounded_and_printable() {
        assert!(ClientMsgId::try_from("ü".repeat(32)).is_ok());
        for text in [
            String::new(),
            "ü".repeat(33),
            "a\nb".to_owned(),
            "\u{85}".to_owned(),
        ] {
            assert!(ClientMsgId::try_from(text.clone()).is_err(), "{text:?}");
        }
    }
}
