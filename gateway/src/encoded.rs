//! Encoded frames. Nothing decodes them again: the hub only counts their bytes.

use axum::extract::ws::{Message, Utf8Bytes};

/// A frame of JSON. Its copies share the bytes.
#[derive(Clone, Debug)]
pub(crate) struct Encoded(Utf8Bytes);

impl Encoded {
    pub(crate) fn new(json: String) -> Self {
        Self(json.into())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn into_message(self) -> Message {
        Message::Text(self.0)
    }
}
