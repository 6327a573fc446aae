//! What waits in the hub, as frames: the hub itself knows none.

use schemas::UserId;

use super::{ServerFrame, Time, event_frame};
use crate::{
    encoded::{Encoded, Encodings, Format},
    hub::{Answer, Connection, Outcome, RingEvent},
};

impl RingEvent {
    /// The frame that the devices of a user get. It is encoded once for all of them, but for users whom a change of a group names beyond the
    /// members that its frame has.
    pub(crate) fn frame_for(&self, uid: UserId, format: Format) -> Encoded {
        let encode = |named| Encoded::new(format.encode(&event_frame(self, named)));
        match self.names_beyond_its_frame(uid) {
            true => encode(Some(uid)),
            false => self
                .encodings
                .get_or_encode(format, || encode(None))
                .clone(),
        }
    }
}

impl Connection {
    /// Adds a frame for this connection alone.
    pub(crate) fn push_frame(&self, frame: &ServerFrame<'_>) {
        self.push_encoded(Encoded::new(self.format().encode(frame)));
    }

    /// Adds a frame that may be lost: where it does not fit behind what waits, it is. Whether it was added.
    pub(crate) fn push_fleeting(&self, frame: &Fleeting<'_>) -> bool {
        let format = self.format();
        let encode = || Encoded::new(format.encode(&frame.frame));
        self.push_if_it_fits(frame.encodings.get_or_encode(format, encode).clone())
    }
}

/// A frame that may be lost, for any number of connections.
pub(crate) struct Fleeting<'a> {
    frame: ServerFrame<'a>,
    encodings: Encodings,
}

impl<'a> From<ServerFrame<'a>> for Fleeting<'a> {
    fn from(frame: ServerFrame<'a>) -> Self {
        Self {
            frame,
            encodings: Encodings::default(),
        }
    }
}

impl Answer {
    /// The frame that the device gets.
    pub(crate) fn frame(&self) -> ServerFrame<'_> {
        let reference = &self.reference;
        match &self.outcome {
            Outcome::Sent(message) => ServerFrame::Sent {
                reference,
                mid: message.map(|(mid, _)| mid.get()),
                ts: message.map(|(_, ts)| Time(ts)),
            },
            Outcome::Refused(refusal) => ServerFrame::Refused {
                reference,
                reason: refusal.reason.as_str(),
                detail: &refusal.detail,
                retry: false,
            },
            Outcome::Unknown => ServerFrame::Refused {
                reference,
                reason: "unknown-outcome",
                detail: "the logs no longer say what has become of it; send it again with the same client_msg_id",
                retry: true,
            },
        }
    }
}
