//! An event as the ring keeps it and as devices get it.

use std::sync::OnceLock;

use axum::extract::ws::Utf8Bytes;
use schemas::{Partition, event::Event};

use super::{audience::Audience, body::audience_of};
use crate::frames::event_frame;

/// An event of `chat.events`. Its frame is encoded once, however many devices get it.
#[derive(Debug)]
pub(crate) struct RingEvent {
    pub(crate) partition: Partition,
    pub(crate) offset: i64,
    pub(crate) event: Event,
    pub(crate) audience: Audience,
    /// About what it takes in the ring.
    pub(crate) bytes: usize,
    frame: OnceLock<Utf8Bytes>,
}

/// What an event takes besides its texts: itself, its place in the ring and in the index.
const OVERHEAD_BYTES: usize = 400;

impl RingEvent {
    /// `value_bytes` is the length of the record's value.
    pub(crate) fn new(partition: Partition, offset: i64, event: Event, value_bytes: usize) -> Self {
        Self {
            partition,
            offset,
            audience: audience_of(&event),
            event,
            // The value decoded, and as a frame.
            bytes: OVERHEAD_BYTES + 3 * value_bytes,
            frame: OnceLock::new(),
        }
    }

    /// The frame that devices get: one JSON object.
    pub(crate) fn frame(&self) -> &Utf8Bytes {
        self.frame
            .get_or_init(|| event_frame(self).to_json().into())
    }
}
