//! Frames as they are written. Nobody looks into one any more: the hub counts their bytes.

use std::sync::OnceLock;

use axum::extract::ws::Message;

/// A form of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// JSON objects in text frames.
    Json,
    /// Protobuf in binary frames.
    Proto,
}

impl Format {
    /// The first is preferred where a device offers several.
    pub(crate) const ALL: [Self; 2] = [Self::Json, Self::Proto];
}

/// A frame in the forms in which it was written so far: once in each, however many devices get it.
#[derive(Debug, Default)]
pub(crate) struct Encodings([OnceLock<Encoded>; Format::ALL.len()]);

impl Encodings {
    pub(crate) fn get_or_encode(
        &self,
        format: Format,
        encode: impl FnOnce() -> Encoded,
    ) -> &Encoded {
        self.0[format as usize].get_or_init(encode)
    }
}

/// A frame in one of the forms. Its copies share the bytes.
#[derive(Clone, Debug)]
pub(crate) struct Encoded(Message);

impl Encoded {
    pub(crate) fn new(frame: Message) -> Self {
        Self(frame)
    }

    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Message::Text(text) => text.len(),
            Message::Binary(bytes) => bytes.len(),
            _ => 0,
        }
    }

    pub(crate) fn into_message(self) -> Message {
        self.0
    }
}
