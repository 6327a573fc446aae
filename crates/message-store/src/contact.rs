use std::collections::BTreeSet;

use schemas::{Change, ChangeSeq, ContactFlags, Mid, Ordinal, PerDevice, TimestampMs, UserId};

use crate::MessageState;

/// How many characters (code points) of the last message `contact_<n>` keeps.
pub const PREVIEW_CHARS: usize = 200;

/// The newest message of a conversation, as a contact row keeps it.
///
/// Merging two keeps the one with the larger (mid, chg). If both are of the same message, time and sender come from the smaller one: a change does
/// not say when its message was sent nor, in a group, by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastMessage {
    /// Its number, at least 1.
    pub mid: Mid,
    /// Its time.
    pub ts: TimestampMs,
    /// The sender.
    pub srcid: UserId,
    /// The first [`PREVIEW_CHARS`] characters of its newest text. A longer one is an error of the write.
    pub preview: String,
    /// The last change to it; 0 if there was none.
    pub change_seq: ChangeSeq,
    /// Whether it is shown.
    pub state: MessageState,
}

impl LastMessage {
    /// The stored part of a message.
    #[must_use]
    pub fn new(mid: Mid, srcid: UserId, msg: &str, ts: TimestampMs) -> Self {
        Self {
            mid,
            ts,
            srcid,
            preview: preview_of(msg).to_owned(),
            change_seq: ChangeSeq::ZERO,
            state: MessageState::Shown,
        }
    }

    /// What a change at `ts` says about its message; `None` if the change leaves the text alone.
    #[must_use]
    pub fn changed(
        mid: Mid,
        by: UserId,
        change: &Change,
        change_seq: ChangeSeq,
        ts: TimestampMs,
    ) -> Option<Self> {
        Some(Self {
            change_seq,
            state: MessageState::after(change)?,
            ..Self::new(mid, by, change.msg().unwrap_or_default(), ts)
        })
    }

    fn version(&self) -> (Mid, ChangeSeq) {
        (self.mid, self.change_seq)
    }

    pub(crate) fn merge(self, other: Self) -> Self {
        let (older, newer) = if self.version() < other.version() {
            (self, other)
        } else {
            (other, self)
        };
        if older.mid == newer.mid {
            let Self { ts, srcid, .. } = older;
            Self { ts, srcid, ..newer }
        } else {
            newer
        }
    }
}

/// The beginning of a text that a row keeps.
fn preview_of(msg: &str) -> &str {
    // Most messages have fewer bytes than that.
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
/// The larger of two is the one with the higher mid; if both have the same mid, the one that has an ordinal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadUpTo {
    /// The last message read; 0 if nothing is read.
    pub mid: Mid,
    /// The ordinal of the peer's last message up to `mid`; `None` if it is not known.
    pub ordinal: Option<Ordinal>,
}

impl ReadUpTo {
    /// Nothing read.
    pub const NOTHING: Self = Self {
        mid: Mid::ZERO,
        ordinal: Some(Ordinal::ZERO),
    };
}

impl Default for ReadUpTo {
    fn default() -> Self {
        Self::NOTHING
    }
}

/// The flags that a user has set for a contact, with the event that set them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlagsAt {
    /// The offset of the event.
    pub event_offset: i64,
    /// The flags.
    pub flags: ContactFlags,
}

/// Changes to one user's row of a conversation, merged by maximum into `contact_<n>`, n = uid mod 64.
///
/// Merging is idempotent, and commutative except for the flags in a database. The database has no offset of the flags: it takes new flags if their
/// event comes after the last one that changed the row. All events of a row are in one partition, and are written in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContactDelta {
    /// The owner of the row.
    pub uid: UserId,
    /// The other user; the same as `uid` in a note to oneself.
    pub peer: UserId,
    /// The newest message, or the last change to it, if there was one.
    pub last: Option<LastMessage>,
    /// The ordinal of `peer`'s newest message; 0 if there was none.
    pub peer_ordinal: Ordinal,
    /// The ordinal of `uid`'s own newest message; 0 if there was none.
    pub own_ordinal: Ordinal,
    /// The read positions of `uid`.
    pub read: PerDevice<ReadUpTo>,
    /// The last change of the conversation that has a number, made by either user; 0 if there was none.
    pub change_seq: ChangeSeq,
    /// The offset of the last event without a number by which `uid` hid a message or cleared the history; 0 if there was none.
    pub own_pos: i64,
    /// The offset in `chat.events` of the last event that changed the row: a message, a change to a message, a read position of `uid`, or a change by
    /// `uid` to the contact. −1 if there was none.
    pub event_offset: i64,
    /// The flags that `uid` has set. In a row that was read from the database, their offset is `pos`, and `None` means no flags.
    pub flags: Option<FlagsAt>,
    /// The newest message when `uid` last deleted the contact; 0 if that never was.
    pub deleted_mid: Mid,
    /// The newest message that `uid` has cleared; 0 if there was none.
    pub clear_mid: Mid,
    /// Messages that `uid` has hidden. They are stored in `hidden_<n>`. [`ReadTx::contact_page`](crate::ReadTx::contact_page) fills in the newest
    /// message if that is hidden; other reads leave it empty.
    pub hidden: BTreeSet<Mid>,
}

impl ContactDelta {
    /// A delta that changes nothing.
    #[must_use]
    pub fn new(uid: UserId, peer: UserId) -> Self {
        Self {
            uid,
            peer,
            last: None,
            peer_ordinal: Ordinal::ZERO,
            own_ordinal: Ordinal::ZERO,
            read: PerDevice::default(),
            change_seq: ChangeSeq::ZERO,
            own_pos: 0,
            event_offset: -1,
            flags: None,
            deleted_mid: Mid::ZERO,
            clear_mid: Mid::ZERO,
            hidden: BTreeSet::new(),
        }
    }

    /// Merges a later, earlier or repeated delta of the same row, as the database would.
    pub fn merge(&mut self, other: Self) {
        debug_assert_eq!((self.uid, self.peer), (other.uid, other.peer));
        self.last = match (self.last.take(), other.last) {
            (Some(one), Some(two)) => Some(one.merge(two)),
            (one, two) => one.or(two),
        };
        self.peer_ordinal = self.peer_ordinal.max(other.peer_ordinal);
        self.own_ordinal = self.own_ordinal.max(other.own_ordinal);
        self.read = self.read.max(other.read);
        self.change_seq = self.change_seq.max(other.change_seq);
        self.own_pos = self.own_pos.max(other.own_pos);
        self.event_offset = self.event_offset.max(other.event_offset);
        self.flags = [self.flags, other.flags]
            .into_iter()
            .flatten()
            .max_by_key(|set| set.event_offset);
        self.deleted_mid = self.deleted_mid.max(other.deleted_mid);
        self.clear_mid = self.clear_mid.max(other.clear_mid);
        self.hidden.extend(other.hidden);
    }
}

/// A row of `contact_<n>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContactRow {
    /// The part of the row that follows from the log.
    pub contact: ContactDelta,
}

impl ContactRow {
    /// Its position in the list.
    #[must_use]
    pub fn cursor(&self) -> ContactCursor {
        ContactCursor {
            pinned: self.flags().pinned,
            last_ts: self
                .contact
                .last
                .as_ref()
                .map_or(TimestampMs(0), |last| last.ts),
            peer: self.contact.peer,
        }
    }

    /// The flags that the user has set.
    #[must_use]
    pub fn flags(&self) -> ContactFlags {
        self.contact
            .flags
            .map_or_else(ContactFlags::default, |set| set.flags)
    }

    /// Whether a list has the contact: there is a message, and if the contact was deleted, the message is newer than that.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        let last = self.contact.last.as_ref();
        last.is_some_and(|last| last.mid > self.contact.deleted_mid)
    }

    /// Whether the user has deleted the contact, and there is no newer message.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.contact.deleted_mid > Mid::ZERO && !self.is_listed()
    }

    /// The newest message as the user sees it: `None` if there is none, or if it is deleted for both, cleared, or among
    /// [`hidden`](ContactDelta::hidden).
    #[must_use]
    pub fn visible_last(&self) -> Option<&LastMessage> {
        let ContactDelta {
            last,
            clear_mid,
            hidden,
            ..
        } = &self.contact;
        last.as_ref().filter(|last| {
            last.mid > *clear_mid
                && last.state != MessageState::Deleted
                && !hidden.contains(&last.mid)
        })
    }

    /// The mids of the read positions.
    #[must_use]
    pub fn read_mids(&self) -> PerDevice<Mid> {
        self.contact.read.map(|read| read.mid)
    }
}

/// A position in a user's conversation list: pinned contacts come first, then the newest message, then the largest peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContactCursor {
    /// Whether the contact is pinned.
    pub pinned: bool,
    /// The time of the last message; 0 if there is none.
    pub last_ts: TimestampMs,
    /// The other user.
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
            let (mid, srcid) = (Mid::ZERO.next(), 1.try_into().unwrap());
            let last = LastMessage::new(mid, srcid, &msg, TimestampMs(1));
            assert_eq!(last.preview, preview);
        }
    }
}
