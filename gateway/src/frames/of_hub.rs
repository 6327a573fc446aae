//! What waits in the hub, as frames: the hub itself knows none.

use schemas::UserId;

use super::{ServerFrame, Time, event_frame};
use crate::{
    encoded::{Encoded, Format},
    hub::{Answer, Connection, Hub, Outcome, RingEvent},
};

impl RingEvent {
    /// The frame that devices get.
    pub(crate) fn frame(&self, format: Format) -> &Encoded {
        self.encoded(format, || Encoded::new(format.encode(&event_frame(self))))
    }
}

impl Connection {
    /// Adds a frame for this connection alone.
    pub(crate) fn push_frame(&self, frame: &ServerFrame<'_>) {
        self.push_encoded(Encoded::new(self.format().encode(frame)));
    }

    /// Adds a frame that may be lost: where it does not fit behind what waits, it is. Whether it was added.
    pub(crate) fn push_fleeting(&self, frame: &ServerFrame<'_>) -> bool {
        self.push_if_it_fits(Encoded::new(self.format().encode(frame)))
    }
}

impl Hub {
    /// Hands a frame that may be lost to all connections of a user that have a stream.
    pub(crate) fn push_fleeting(&self, uid: UserId, frame: &ServerFrame<'_>) {
        for connection in self.connections_of(uid) {
            connection.push_fleeting(frame);
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
                detail: "chat.inbound was created again; send it again with the same client_msg_id",
                retry: true,
            },
        }
    }
}
