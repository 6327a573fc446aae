//! A setting that is never shown.

use std::fmt;

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The text that is shown instead of a secret.
pub(super) const REDACTED: &str = "[redacted]";

/// A password or key: shown as `[redacted]` wherever it is printed, logged or serialised, and wiped from memory when dropped.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// The secret itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(SecretString::from(text))
    }
}

impl Default for Secret {
    fn default() -> Self {
        Self::from("")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(REDACTED)
    }
}

impl<'de> Deserialize<'de> for Secret {
    /// Takes strings only. Serde's own message about a number would quote the number.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match String::deserialize(deserializer) {
            Ok(text) => Ok(Self(text.into())),
            Err(_) => Err(de::Error::custom(
                "is not a string; must be a quoted string",
            )),
        }
    }
}
