//! How frames are written and read: by the subprotocol of a connection.

use axum::{extract::ws::Message, http::HeaderValue};

use super::{ClientFrame, Format, NoFrame, ServerFrame, json, proto};

impl Format {
    pub(crate) fn subprotocol(self) -> &'static str {
        match self {
            Self::Json => "tidemark.v1.json",
            Self::Proto => "tidemark.v1.proto",
        }
    }

    /// What a connection uses with this subprotocol, or with none of ours.
    pub(crate) fn of(subprotocol: Option<&HeaderValue>) -> Self {
        let is_it = |format: &Self| subprotocol.is_some_and(|name| name == format.subprotocol());
        Self::ALL.into_iter().find(is_it).unwrap_or(Self::Json)
    }

    pub(crate) fn encode(self, frame: &ServerFrame<'_>) -> Message {
        match self {
            Self::Json => Message::Text(json::encode(frame).into()),
            Self::Proto => Message::Binary(proto::encode(frame).into()),
        }
    }

    /// Reads a frame, or says what is wrong, for the developer of the device. `None` where it is not of this form.
    pub(crate) fn parse(self, message: &Message) -> Option<Result<ClientFrame, NoFrame>> {
        match (self, message) {
            (Self::Json, Message::Text(text)) => Some(json::parse(text)),
            (Self::Proto, Message::Binary(bytes)) => Some(proto::parse(bytes)),
            _ => None,
        }
    }
}
