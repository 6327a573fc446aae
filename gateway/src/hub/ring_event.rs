//! An event as the ring keeps it and as devices get it.

use std::sync::OnceLock;

use api::{EventFrame, MEMBERS_IN_FRAME};
use schemas::{EventPosition, UserId, event::Event};

use super::{
    audience::Audience,
    body::{audience_of, group_change},
};
use crate::encoded::Encoded;

/// An event of `chat.events`. Its frame is encoded once, however many devices get it.
#[derive(Debug)]
pub(crate) struct RingEvent {
    pub(crate) at: EventPosition,
    pub(crate) event: Event,
    pub(crate) audience: Audience,
    /// About what it takes in the ring.
    pub(crate) bytes: usize,
    frame_bytes: OnceLock<usize>,
    pub(crate) encoded: OnceLock<Encoded>,
}

/// What an event takes besides its texts: itself, its place in the ring and in the index.
pub(super) const OVERHEAD_BYTES: usize = 400;

impl RingEvent {
    /// `value_bytes` is the length of the record's value.
    pub(crate) fn new(at: EventPosition, event: Event, value_bytes: usize) -> Self {
        Self {
            at,
            audience: audience_of(&event),
            event,
            frame_bytes: OnceLock::new(),
            // The decoded value, and the frame, which takes about twice as much.
            bytes: OVERHEAD_BYTES + 3 * value_bytes,
            encoded: OnceLock::new(),
        }
    }

    /// The largest size of its frame, bytes. Computed when it is first asked for: most events concern no device here.
    pub(crate) fn frame_bytes(&self) -> usize {
        *self
            .frame_bytes
            .get_or_init(|| EventFrame::max_bytes(&self.event))
    }

    /// Whether it is a change of a group that names a user whom the frame for everybody leaves out.
    pub(crate) fn names_beyond_its_frame(&self, uid: UserId) -> bool {
        let members = group_change(&self.event).map(|change| change.members.as_slice());
        let beyond = members.and_then(|members| members.get(MEMBERS_IN_FRAME..));
        self.audience.names(uid) && beyond.is_some_and(|all| all.iter().any(|one| one.uid == uid))
    }
}
