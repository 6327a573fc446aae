//! Fields that serde's derive would read otherwise, or refuse in other words.

use std::fmt;

use schemas::{DeviceClass, Mid};
use serde::{
    Deserializer,
    de::{self, Expected, Unexpected},
};

/// A visitor, since serde's derive for an enum reports a number in its place as a syntax error without the field.
pub(crate) fn device<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DeviceClass, D::Error> {
    struct Visitor;

    impl de::Visitor<'_> for Visitor {
        type Value = DeviceClass;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("\"pc\" or \"mobile\"")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<DeviceClass, E> {
            text.parse()
                .map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
        }
    }

    deserializer.deserialize_any(Visitor)
}

/// The number of a message.
pub(crate) fn mid<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Mid, D::Error> {
    struct Visitor;

    impl de::Visitor<'_> for Visitor {
        type Value = Mid;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a message's number, 1 or more")
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<Mid, E> {
            mid_of_number(number, &self)
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<Mid, E> {
            // serde_json hands positive numbers to visit_u64.
            Err(E::invalid_value(Unexpected::Signed(number), &self))
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Mid, E> {
            mid_of_text(text, &self)
        }
    }

    deserializer.deserialize_any(Visitor)
}

/// The number of a message, or `None` for the latest.
pub(crate) fn read_up_to<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Mid>, D::Error> {
    struct Visitor;

    impl<'de> de::Visitor<'de> for Visitor {
        type Value = Option<Mid>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a message's number, 1 or more, or \"latest\"")
        }

        fn visit_unit<E: de::Error>(self) -> Result<Option<Mid>, E> {
            Ok(None)
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<Option<Mid>, E> {
            mid_of_number(number, &self).map(Some)
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<Option<Mid>, E> {
            Err(E::invalid_value(Unexpected::Signed(number), &self))
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Option<Mid>, E> {
            if text == "latest" {
                return Ok(None);
            }
            mid_of_text(text, &self).map(Some)
        }
    }

    deserializer.deserialize_any(Visitor)
}

fn mid_of_number<E: de::Error>(number: u64, expected: &dyn Expected) -> Result<Mid, E> {
    i64::try_from(number)
        .ok()
        .filter(|mid| *mid >= 1)
        .and_then(|mid| Mid::try_from(mid).ok())
        .ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), expected))
}

fn mid_of_text<E: de::Error>(text: &str, expected: &dyn Expected) -> Result<Mid, E> {
    let canonical = text.bytes().all(|c| c.is_ascii_digit()) && !text.starts_with('0');
    match text.parse::<u64>() {
        Ok(number) if canonical => mid_of_number(number, expected),
        _ => Err(E::invalid_value(Unexpected::Str(text), expected)),
    }
}
