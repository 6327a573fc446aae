use message_store::{ContactRow, ReadUpTo};
use schemas::{ContactFlags, DeviceClass, Ordinal, PerDevice};

use super::{message_state::MessageState, preview_digest};

/// The newest message of a conversation; all 0 if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastMessage {
    pub(crate) mid: i64,
    pub(crate) ts: i64,
    pub(crate) srcid: i64,
    pub(crate) preview: u64,
    /// The change that the message is shown with; 0 for none.
    pub(crate) change_seq: i64,
    pub(crate) state: MessageState,
}

/// The newest message that a user has read; `n` is `None` if a store does not know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastRead {
    pub(crate) mid: i64,
    pub(crate) ordinal: Option<i64>,
}

impl Default for LastRead {
    fn default() -> Self {
        Self {
            mid: 0,
            ordinal: Some(0),
        }
    }
}

/// What a user has set for a contact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) set: ContactFlags,
    /// The offset of the event that set them; not stored.
    pub(crate) at: i64,
}

/// What a projection stores of a conversation for one of its users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contact {
    pub(crate) last: LastMessage,
    /// n of the peer's newest message; 0 in a note to oneself, which is never unread.
    pub(crate) peer_ordinal: i64,
    /// n of the user's own newest message.
    pub(crate) own_ordinal: i64,
    pub(crate) reads: PerDevice<LastRead>,
    /// How many changes with a number the conversation has.
    pub(crate) change_seq: i64,
    /// The offset of the last hide or clear without a number by this user; 0 for none.
    pub(crate) own_pos: i64,
    /// The offset of the last event that changed any of this.
    pub(crate) event_offset: i64,
    pub(crate) flags: Flags,
    pub(crate) deleted_mid: i64,
    pub(crate) clear_mid: i64,
    /// The messages that the user has hidden, ascending. They have a table of their own.
    pub(crate) hidden: Vec<i64>,
}

impl Contact {
    pub(crate) fn of_row(row: &ContactRow) -> Self {
        let contact = &row.contact;
        Self {
            last: LastMessage::of_row(contact.last.as_ref()),
            peer_ordinal: contact.peer_ordinal.get(),
            own_ordinal: contact.own_ordinal.get(),
            reads: PerDevice::from_fn(|device| LastRead::from(row.contact.read[device])),
            change_seq: contact.change_seq.get(),
            own_pos: contact.own_pos,
            event_offset: contact.event_offset,
            flags: Flags {
                set: row.flags(),
                at: contact.event_offset,
            },
            deleted_mid: contact.deleted_mid.get(),
            clear_mid: contact.clear_mid.get(),
            hidden: Vec::new(),
        }
    }

    /// Whether a read position has no ordinal.
    pub(crate) fn lacks_an_ordinal(&self) -> bool {
        let mut reads = self.reads.iter();
        reads.any(|(_, read)| read.mid > 0 && read.ordinal.is_none())
    }

    /// The first column whose value is not between what the log had before the read (`lower`) and after it (`upper`).
    pub(crate) fn outside(&self, lower: &Self, upper: &Self) -> Option<&'static str> {
        if !lower.last.spans(&upper.last, &self.last) {
            return Some("the last message");
        }
        let numbers = [
            (
                "peer_n",
                lower.peer_ordinal,
                upper.peer_ordinal,
                self.peer_ordinal,
            ),
            (
                "own_n",
                lower.own_ordinal,
                upper.own_ordinal,
                self.own_ordinal,
            ),
            ("chg", lower.change_seq, upper.change_seq, self.change_seq),
            ("own_pos", lower.own_pos, upper.own_pos, self.own_pos),
            (
                "deleted_mid",
                lower.deleted_mid,
                upper.deleted_mid,
                self.deleted_mid,
            ),
            (
                "clear_mid",
                lower.clear_mid,
                upper.clear_mid,
                self.clear_mid,
            ),
        ];
        let mut wrong = numbers
            .into_iter()
            .filter(|(_, lower, upper, found)| !within(*lower, *upper, *found));
        if let Some((name, ..)) = wrong.next() {
            return Some(name);
        }
        if let Some(name) = self.outside_flags(lower, upper) {
            return Some(name);
        }
        let lacks_pos = self.is_without_pos() && upper.is_plain();
        if !lacks_pos && !within(lower.event_offset, upper.event_offset, self.event_offset) {
            return Some("pos");
        }
        DeviceClass::ALL.into_iter().find_map(|device| {
            let names = match device {
                DeviceClass::Pc => ["pc_read_mid", "pc_read_n"],
                DeviceClass::Mobile => ["mobile_read_mid", "mobile_read_n"],
            };
            self.reads[device].outside(&lower.reads[device], &upper.reads[device], names)
        })
    }

    /// Whether the row is from before schema version 4, without an event since.
    fn is_without_pos(&self) -> bool {
        self.event_offset < 0
    }

    /// Whether nobody has changed anything in the contact.
    fn is_plain(&self) -> bool {
        self.change_seq.max(self.own_pos) == 0
            && self.deleted_mid == 0
            && self.flags == Flags::default()
    }

    /// Flags go back and forth: between two states they may have any values.
    fn outside_flags(&self, lower: &Self, upper: &Self) -> Option<&'static str> {
        if lower.flags != upper.flags && self.event_offset < upper.flags.at {
            return None;
        }
        let (found, expected) = (self.flags.set, upper.flags.set);
        let flags = [
            ("favourite", found.favourite == expected.favourite),
            ("pinned", found.pinned == expected.pinned),
            ("muted", found.muted == expected.muted),
            ("blocked", found.blocked == expected.blocked),
        ];
        let (name, _) = flags.into_iter().find(|(_, equal)| !equal)?;
        Some(name)
    }
}

impl From<ReadUpTo> for LastRead {
    fn from(read: ReadUpTo) -> Self {
        Self {
            mid: read.mid.get(),
            ordinal: read.ordinal.map(Ordinal::get),
        }
    }
}

impl LastRead {
    fn outside(
        &self,
        lower: &Self,
        upper: &Self,
        [mid, n]: [&'static str; 2],
    ) -> Option<&'static str> {
        if !within(lower.mid, upper.mid, self.mid) {
            return Some(mid);
        }
        (!ordinal_within(self.ordinal, lower.ordinal, upper.ordinal)).then_some(n)
    }
}

impl LastMessage {
    pub(crate) fn of_row(last: Option<&message_store::LastMessage>) -> Self {
        last.map_or_else(Self::default, |last| Self {
            mid: last.mid.get(),
            ts: last.ts.0,
            srcid: last.srcid.get(),
            preview: preview_digest(&last.preview),
            change_seq: last.change_seq.get(),
            state: last.state.into(),
        })
    }

    /// A later message is newer, and so is a later change of the same message.
    fn version(&self) -> (i64, i64) {
        (self.mid, self.change_seq)
    }

    /// Whether `found` may have been the newest message between `self` and `upper`.
    fn spans(&self, upper: &Self, found: &Self) -> bool {
        if found.version() == self.version() {
            return found == self;
        }
        if found.version() == upper.version() {
            return found == upper;
        }
        let versions = self.version()..=upper.version();
        versions.contains(&found.version()) && within(self.ts, upper.ts, found.ts)
    }
}

pub(crate) fn within(lower: i64, upper: i64, found: i64) -> bool {
    (lower..=upper).contains(&found)
}

/// Whether a store may have `found`. The log always has the ordinal, so a store without it is wrong.
pub(crate) fn ordinal_within(found: Option<i64>, lower: Option<i64>, upper: Option<i64>) -> bool {
    match (found, lower, upper) {
        (Some(found), Some(lower), Some(upper)) => within(lower, upper, found),
        _ => false,
    }
}
