//! Frames of `tidemark.v1.json`.

use super::{ClientFrame, ServerFrame};

/// Reads a frame.
///
/// # Errors
/// What is wrong, for the developer of the device.
pub(super) fn parse(text: &str) -> Result<ClientFrame, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

pub(super) fn encode(frame: &ServerFrame<'_>) -> String {
    serde_json::to_string(frame).expect("frames have string keys and no other failures")
}
