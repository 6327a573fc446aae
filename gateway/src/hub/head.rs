//! How far a group has come, in place of events that do not fit. The place of a head in a queue is that of the first event that it stands for.

use api::HeadFrame;
use schemas::{ChangeSeq, Mid, Recipient, UserId, event::Body};

use super::ring_event::RingEvent;

/// The head that a user gets in place of a message of a group, or of a change to one that all members see.
pub(super) fn head_of(event: &RingEvent, own: UserId) -> Option<HeadFrame> {
    let (to, mid, change_seq, author) = match &event.event.body {
        Body::Message(message) => (
            message.to,
            message.mid,
            ChangeSeq::ZERO,
            Some(message.srcid),
        ),
        Body::MessageChange(change) if !change.change.is_for_one() => {
            (change.to, change.mid, change.change_seq, None)
        }
        _ => return None,
    };
    let Recipient::Group(gid) = to else {
        return None;
    };
    Some(HeadFrame {
        at: event.at,
        until: event.at,
        gid,
        mid,
        change_seq,
        own_mid: if author == Some(own) { mid } else { Mid::ZERO },
    })
}

/// Merges two heads of one group; `other` stands for later events.
pub(super) fn merge(head: &mut HeadFrame, other: HeadFrame) {
    head.until = head.until.max(other.until);
    head.mid = head.mid.max(other.mid);
    head.own_mid = head.own_mid.max(other.own_mid);
    head.change_seq = head.change_seq.max(other.change_seq);
}
