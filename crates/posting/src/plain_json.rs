//! JSON that is kept as it was posted, and read by others.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
};

/// Keys by which serde_json hands values on to itself: it takes the text that is the value of such a key for the whole object.
const RESERVED: &str = "$serde_json::private::";

/// Whether an object in `text` has such a key. A text that is not JSON has none.
pub fn has_reserved_key(text: &str) -> bool {
    let read = serde_json::from_str::<Plain>(text);
    read.is_err_and(|error| error.is_data())
}

/// Any JSON, of which nothing is kept; an error of its own is a reserved key.
struct Plain;

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Plain {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key.starts_with(RESERVED) {
                return Err(A::Error::custom("a reserved key"));
            }
            map.next_value::<Self>()?;
        }
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_key_is_found_wherever_and_however_it_is_written() {
        for text in [
            r#"{"$serde_json::private::RawValue":"[1]"}"#,
            r#"{"a":[{"$serde_json::private::RawValue":"{}"}]}"#,
            r#"{"a":1,"\u0024serde_json::private::Number":"5"}"#,
        ] {
            assert!(has_reserved_key(text), "{text}");
        }
        for text in [
            r#"{"a":"$serde_json::private::RawValue","b":[1,-1,1.5,1e400,true,null,{}]}"#,
            r#"{"serde_json::private::RawValue":1}"#,
            "{",
            "",
        ] {
            assert!(!has_reserved_key(text), "{text}");
        }
    }
}
