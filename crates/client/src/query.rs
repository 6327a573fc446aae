//! The path of a call with its query string.

use std::fmt::{self, Write as _};

/// A path with its query string.
#[derive(Clone, Debug)]
pub struct Query {
    path: String,
    has_values: bool,
}

impl Query {
    /// A path without parameters.
    pub fn of(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            has_values: false,
        }
    }

    /// Adds a parameter once for each value. A value may have any characters: it neither ends a parameter nor begins another.
    #[must_use]
    pub fn with(mut self, name: &str, values: impl IntoIterator<Item: fmt::Display>) -> Self {
        for value in values {
            self.path.push(if self.has_values { '&' } else { '?' });
            self.has_values = true;
            write!(self.path, "{name}=").expect("a string takes everything");
            write!(Escaped(&mut self.path), "{value}").expect("a string takes everything");
        }
        self
    }

    /// The path with its query string.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// Escapes what is written.
struct Escaped<'a>(&'a mut String);

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            match byte {
                b'-' | b'.' | b'_' | b'~' | b':' | b',' => self.0.push(char::from(byte)),
                _ if byte.is_ascii_alphanumeric() => self.0.push(char::from(byte)),
                _ => write!(self.0, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_one_parameter() {
        let query = Query::of("/v1/x")
            .with("limit", None::<u8>)
            .with("after", ["17:42", "18:1"])
            .with("since", Some("a&uid=7 \u{e9}#%"));
        assert_eq!(
            query.path(),
            "/v1/x?after=17:42&after=18:1&since=a%26uid%3D7%20%C3%A9%23%25"
        );
        assert_eq!(Query::of("/v1/x").path(), "/v1/x");
    }
}
