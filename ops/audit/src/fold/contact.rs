use message_store::{ContactRow, ReadUpTo};
use schemas::{DeviceClass, Ordinal};

use super::preview_digest;

/// The newest message of a conversation; all 0 where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Last {
    pub(crate) mid: i64,
    pub(crate) ts: i64,
    pub(crate) srcid: i64,
    pub(crate) preview: u64,
}

/// Up to where somebody has read; `n` is `None` where a store does not know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) mid: i64,
    pub(crate) n: Option<i64>,
}

impl Default for Read {
    fn default() -> Self {
        Self { mid: 0, n: Some(0) }
    }
}

/// Everything that is kept of one side of a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contact {
    pub(crate) last: Last,
    /// n of the peer's newest message; 0 in a note to oneself, which is never unread.
    pub(crate) peer_n: i64,
    /// n of the user's own newest message.
    pub(crate) own_n: i64,
    /// On pc and on mobile.
    pub(crate) reads: [Read; 2],
}

/// The classes, in the order of [`Contact::reads`].
pub(crate) const CLASSES: [DeviceClass; 2] = [DeviceClass::Pc, DeviceClass::Mobile];

impl Contact {
    pub(crate) fn of_row(row: &ContactRow) -> Self {
        let contact = &row.contact;
        Self {
            last: contact
                .last
                .as_ref()
                .map_or_else(Last::default, |last| Last {
                    mid: last.mid.get(),
                    ts: last.ts.0,
                    srcid: last.srcid.get(),
                    preview: preview_digest(&last.preview),
                }),
            peer_n: contact.peer_n.get(),
            own_n: contact.own_n.get(),
            reads: CLASSES.map(|class| Read::from(row.contact.read[class])),
        }
    }

    /// The column in which this is outside what the log says between two looks; where nothing happened between them,
    /// both are the same and so is all that is right.
    pub(crate) fn outside(&self, low: &Self, high: &Self) -> Option<&'static str> {
        if !low.last.spans(&high.last, &self.last) {
            return Some("the last message");
        }
        if !within(low.peer_n, high.peer_n, self.peer_n) {
            return Some("peer_n");
        }
        if !within(low.own_n, high.own_n, self.own_n) {
            return Some("own_n");
        }
        let names = [
            ["pc_read_mid", "pc_read_n"],
            ["mobile_read_mid", "mobile_read_n"],
        ];
        (0..2).find_map(|i| self.reads[i].outside(&low.reads[i], &high.reads[i], names[i]))
    }
}

impl From<ReadUpTo> for Read {
    fn from(read: ReadUpTo) -> Self {
        Self {
            mid: read.mid.get(),
            n: read.n.map(Ordinal::get),
        }
    }
}

impl Read {
    fn outside(
        &self,
        low: &Self,
        high: &Self,
        [mid, n]: [&'static str; 2],
    ) -> Option<&'static str> {
        if !within(low.mid, high.mid, self.mid) {
            return Some(mid);
        }
        (!ordinal_within(self.n, low.n, high.n)).then_some(n)
    }
}

impl Last {
    /// Whether `found` may be the newest at some time from `self` to `high`.
    fn spans(&self, high: &Self, found: &Self) -> bool {
        if found.mid == self.mid {
            return found == self;
        }
        if found.mid == high.mid {
            return found == high;
        }
        within(self.mid, high.mid, found.mid) && within(self.ts, high.ts, found.ts)
    }
}

pub(crate) fn within(low: i64, high: i64, found: i64) -> bool {
    (low..=high).contains(&found)
}

/// Whether a store may say `found`: what the log tells is known, so that a store that does not know it is wrong.
pub(crate) fn ordinal_within(found: Option<i64>, low: Option<i64>, high: Option<i64>) -> bool {
    match (found, low, high) {
        (Some(found), Some(low), Some(high)) => within(low, high, found),
        _ => false,
    }
}
