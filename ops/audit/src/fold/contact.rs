use message_store::{ContactRow, ReadUpTo};
use schemas::{DeviceClass, Ordinal, PerDevice};

use super::preview_digest;

/// The newest message of a conversation; all 0 if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastMessage {
    pub(crate) mid: i64,
    pub(crate) ts: i64,
    pub(crate) srcid: i64,
    pub(crate) preview: u64,
}

/// The newest message that a user has read; `n` is `None` if a store does not know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastRead {
    pub(crate) mid: i64,
    pub(crate) n: Option<i64>,
}

impl Default for LastRead {
    fn default() -> Self {
        Self { mid: 0, n: Some(0) }
    }
}

/// What a projection stores of a conversation for one of its users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contact {
    pub(crate) last: LastMessage,
    /// n of the peer's newest message; 0 in a note to oneself, which is never unread.
    pub(crate) peer_n: i64,
    /// n of the user's own newest message.
    pub(crate) own_n: i64,
    pub(crate) reads: PerDevice<LastRead>,
}

impl Contact {
    pub(crate) fn of_row(row: &ContactRow) -> Self {
        let contact = &row.contact;
        Self {
            last: contact
                .last
                .as_ref()
                .map_or_else(LastMessage::default, |last| LastMessage {
                    mid: last.mid.get(),
                    ts: last.ts.0,
                    srcid: last.srcid.get(),
                    preview: preview_digest(&last.preview),
                }),
            peer_n: contact.peer_n.get(),
            own_n: contact.own_n.get(),
            reads: PerDevice::from_fn(|device| LastRead::from(row.contact.read[device])),
        }
    }

    /// Whether a read position has no ordinal.
    pub(crate) fn lacks_an_ordinal(&self) -> bool {
        let mut reads = self.reads.iter();
        reads.any(|(_, read)| read.mid > 0 && read.n.is_none())
    }

    /// A column whose value is neither what the log had before the read (`low`) nor after it (`high`), nor in between.
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
        DeviceClass::ALL.into_iter().find_map(|device| {
            let names = match device {
                DeviceClass::Pc => ["pc_read_mid", "pc_read_n"],
                DeviceClass::Mobile => ["mobile_read_mid", "mobile_read_n"],
            };
            self.reads[device].outside(&low.reads[device], &high.reads[device], names)
        })
    }
}

impl From<ReadUpTo> for LastRead {
    fn from(read: ReadUpTo) -> Self {
        Self {
            mid: read.mid.get(),
            n: read.n.map(Ordinal::get),
        }
    }
}

impl LastRead {
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

impl LastMessage {
    /// Whether `found` may have been the newest message between `self` and `high`.
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

/// Whether a store may have `found`. The log always has the ordinal, so a store without it is wrong.
pub(crate) fn ordinal_within(found: Option<i64>, low: Option<i64>, high: Option<i64>) -> bool {
    match (found, low, high) {
        (Some(found), Some(low), Some(high)) => within(low, high, found),
        _ => false,
    }
}
