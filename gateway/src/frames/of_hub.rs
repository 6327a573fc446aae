//! What waits in the hub, as frames: the hub queues events, heads, answers and tokens, and encodes none of them.

use api::{EventFrame, ServerFrame, utc};
use schemas::UserId;

use super::encode;
use crate::{
    encoded::Encoded,
    hub::{Answer, Connection, Outcome, RingEvent},
};

impl RingEvent {
    /// The frame that the devices of a user get. The frame is encoded once for all users, except for those whom a change of a group names but whom
    /// the frame for everybody leaves out.
    pub(crate) fn frame_for(&self, uid: UserId) -> Encoded {
        let encode = |named| {
            let frame = EventFrame::new(self.at, &self.event, named);
            encode(&ServerFrame::Event(frame))
        };
        match self.names_beyond_its_frame(uid) {
            true => encode(Some(uid)),
            false => self.encoded.get_or_init(|| encode(None)).clone(),
        }
    }
}

impl Connection {
    /// Adds a frame for this connection alone.
    pub(crate) fn push_frame(&self, frame: &ServerFrame<'_>) {
        self.push_encoded(encode(frame));
    }
}

impl Answer {
    /// The frame that the device gets.
    pub(crate) fn frame(&self) -> ServerFrame<'_> {
        let reference = self.reference.as_str().into();
        match &self.outcome {
            Outcome::Sent(message) => ServerFrame::Sent {
                reference,
                mid: message.map(|(mid, _)| mid.get()),
                ts: message.map(|(_, ts)| utc(ts)),
            },
            Outcome::Refused(refusal) => ServerFrame::Refused {
                reference,
                reason: refusal.reason.as_str().into(),
                detail: refusal.detail.as_str().into(),
                retry: false,
            },
            Outcome::Unknown => ServerFrame::Refused {
                reference,
                reason: "unknown-outcome".into(),
                detail: "the logs no longer say what has become of it; send it again with the same client_msg_id"
                    .into(),
                retry: true,
            },
        }
    }
}
