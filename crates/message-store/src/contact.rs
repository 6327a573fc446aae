use schemas::{Mid, Ordinal, PerDevice, TimestampMs, UserId, event::Message};

/// How many characters (code points) of the last message `contact_<n>` keeps.
pub const PREVIEW_CHARS: usize = 200;

/// The newest message of a conversation, as a contact row keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastMessage {
    /// Its number, at least 1.
    pub mid: Mid,
    /// Its time.
    pub ts: TimestampMs,
    /// Who sent it.
    pub srcid: UserId,
    /// The first [`PREVIEW_CHARS`] characters of its text. A longer one is an error of the write.
    pub preview: String,
}

impl LastMessage {
    /// What is kept of a message.
    #[must_use]
    pub fn of(message: &Message, ts: TimestampMs) -> Self {
        Self {
            mid: message.mid,
            ts,
            srcid: message.srcid,
            preview: preview_of(&message.msg).to_owned(),
        }
    }
}

fn preview_of(msg: &str) -> &str {
    // Most messages are too short to have so many characters.
    if msg.len() <= PREVIEW_CHARS {
        return msg;
    }
    match msg.char_indices().nth(PREVIEW_CHARS) {
        Some((end, _)) => &msg[..end],
        None => msg,
    }
}

/// A read position, and how many messages the peer had sent up to it.
///
/// The larger of two is the one with the higher mid; of two with the same mid, the one that knows its ordinal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadUpTo {
    /// The last message read; 0 where nothing is read.
    pub mid: Mid,
    /// The ordinal of the peer's last message up to `mid`; `None` where it is not known.
    pub n: Option<Ordinal>,
}

impl ReadUpTo {
    /// Nothing read.
    pub const NOTHING: Self = Self {
        mid: Mid::ZERO,
        n: Some(Ordinal::ZERO),
    };
}

impl Default for ReadUpTo {
    fn default() -> Self {
        Self::NOTHING
    }
}

/// Changes to one user's row of a conversation, merged by maximum into `contact_<n>`, n = uid mod 64.
///
/// Merging is commutative and idempotent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContactDelta {
    /// The owner of the row.
    pub uid: UserId,
    /// The other side; the same as `uid` in a note to oneself.
    pub peer: UserId,
    /// The newest message, if there was one.
    pub last: Option<LastMessage>,
    /// The ordinal of `peer`'s newest message; 0 if there was none.
    pub peer_n: Ordinal,
    /// The ordinal of `uid`'s own newest message; 0 if there was none.
    pub own_n: Ordinal,
    /// The read positions of `uid`.
    pub read: PerDevice<ReadUpTo>,
}

impl ContactDelta {
    /// A delta that changes nothing.
    #[must_use]
    pub fn new(uid: UserId, peer: UserId) -> Self {
        Self {
            uid,
            peer,
            last: None,
            peer_n: Ordinal::ZERO,
            own_n: Ordinal::ZERO,
            read: PerDevice::default(),
        }
    }

    /// Merges a later, earlier or repeated delta of the same row, as the database would.
    pub fn merge(&mut self, other: Self) {
        debug_assert_eq!((self.uid, self.peer), (other.uid, other.peer));
        let mid = |last: &Option<LastMessage>| last.as_ref().map(|last| last.mid);
        if mid(&other.last) > mid(&self.last) {
            self.last = other.last;
        }
        self.peer_n = self.peer_n.max(other.peer_n);
        self.own_n = self.own_n.max(other.own_n);
        self.read = self.read.max(other.read);
    }
}

/// A row of `contact_<n>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContactRow {
    /// What follows from the log.
    pub contact: ContactDelta,
    /// The user has removed it from the list.
    pub deleted: bool,
    /// The user has marked it.
    pub favourite: bool,
}

impl ContactRow {
    /// Its position in the list.
    #[must_use]
    pub fn cursor(&self) -> ContactCursor {
        ContactCursor {
            last_ts: self
                .contact
                .last
                .as_ref()
                .map_or(TimestampMs(0), |last| last.ts),
            peer: self.contact.peer,
        }
    }

    /// The mids of the read positions.
    #[must_use]
    pub fn read_mids(&self) -> PerDevice<Mid> {
        self.contact.read.map(|read| read.mid)
    }
}

/// A position in a user's conversation list, which is ordered by time of the last message and then by peer, both descending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContactCursor {
    /// The time of the last message; 0 where there is none.
    pub last_ts: TimestampMs,
    /// The other side.
    pub peer: UserId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_counts_characters_not_bytes() {
        let exact = "\u{1f30a}".repeat(PREVIEW_CHARS);
        for (msg, preview) in [
            (exact.clone(), exact.as_str()),
            (format!("{exact}x"), exact.as_str()),
            ("short".to_owned(), "short"),
        ] {
            let message = Message {
                srcid: 1.try_into().unwrap(),
                destid: 2.try_into().unwrap(),
                client_msg_id: "c".to_owned().try_into().unwrap(),
                msg,
                mid: Mid::ZERO.next(),
                n: Ordinal::ZERO.next(),
            };
            assert_eq!(LastMessage::of(&message, TimestampMs(1)).preview, preview);
        }
    }
}
