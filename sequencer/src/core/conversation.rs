//! The state of one conversation.

use schemas::{ChangeSeq, DeviceClass, Mid, Ordinal, PerDevice, Side};

use super::changes::{Changes, ContactState, REACH};

/// Who sent the newest 128 messages. Bit i: hi sent the message last_mid − i.
///
/// Two words rather than a u128, whose alignment would cost 16 bytes per conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecentSenders {
    pub(super) low: u64,
    pub(super) high: u64,
}

impl RecentSenders {
    /// How many messages back it reaches.
    const REACH: i64 = 128;

    /// Adds the newest message, and returns who sent the one that is no longer within reach.
    fn push(&mut self, side: Side) -> Side {
        let oldest = side_of_bit(self.high >> 63);
        self.high = self.high << 1 | self.low >> 63;
        self.low = self.low << 1 | u64::from(side == Side::Hi);
        oldest
    }

    /// Who sent the message that is `back` before the newest; `None` beyond its reach.
    fn sender(self, back: i64) -> Option<Side> {
        match back {
            0..64 => Some(side_of_bit(self.low >> back & 1)),
            64..Self::REACH => Some(side_of_bit(self.high >> (back - 64) & 1)),
            _ => None,
        }
    }

    /// How many of the newest `k` messages hi sent; `None` beyond its reach.
    fn by_hi_among(self, k: i64) -> Option<i64> {
        let kept = match u32::try_from(k).ok()? {
            0 => return Some(0),
            k if i64::from(k) <= Self::REACH => u128::MAX >> (128 - k),
            _ => return None,
        };
        let bits = u128::from(self.high) << 64 | u128::from(self.low);
        Some(i64::from((bits & kept).count_ones()))
    }
}

fn side_of_bit(bit: u64) -> Side {
    match bit {
        0 => Side::Lo,
        _ => Side::Hi,
    }
}

/// One conversation, as its events left it. Always 0 ≤ lo_count ≤ last_mid, and no read mid is above last_mid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Conversation {
    pub(super) last_mid: Mid,
    /// How many of the messages lo sent; hi sent the others.
    pub(super) lo_count: i64,
    pub(super) recent: RecentSenders,
    pub(super) lo_read: PerDevice<Mid>,
    pub(super) hi_read: PerDevice<Mid>,
    /// The place of the last message in the partition's [`RecentMessages`](super::recent_messages::RecentMessages); 0 if it never was there.
    pub(super) last_place: u64,
    /// State that few conversations have.
    pub(super) changes: Option<Box<Changes>>,
}

impl Conversation {
    /// How many messages `side` has sent.
    pub(super) fn count(&self, side: Side) -> Ordinal {
        ordinal(self.sent_by(side))
    }

    /// How many messages `side` had sent up to `mid`, which is at most the last; `None` if `mid` is out of reach.
    pub(super) fn count_at(&self, side: Side, mid: Mid) -> Option<Ordinal> {
        let above = self.last_mid.get() - mid.get();
        let by_hi = self.recent.by_hi_among(above)?;
        let by_side = match side {
            Side::Lo => above - by_hi,
            Side::Hi => by_hi,
        };
        Some(ordinal(self.sent_by(side) - by_side))
    }

    /// The message up to which `side` has read on `device`.
    pub(super) fn read_mid(&self, side: Side, device: DeviceClass) -> Mid {
        match side {
            Side::Lo => self.lo_read[device],
            Side::Hi => self.hi_read[device],
        }
    }

    /// Adds the next message, sent by `side`. From rule version 3 on, older senders are remembered, too.
    pub(super) fn push(&mut self, side: Side, remembers_older: bool) {
        self.last_mid = self.last_mid.next();
        self.lo_count += i64::from(side == Side::Lo);
        let oldest = self.recent.push(side);
        let left = self.last_mid.get() - RecentSenders::REACH;
        if remembers_older && left > 0 {
            self.changes_mut().older.push(left, oldest);
        }
        if let Some(changes) = &mut self.changes {
            changes.evict(self.last_mid);
        }
    }

    /// Who wrote a message that exists; `None` if the state no longer knows.
    pub(super) fn author(&self, mid: Mid) -> Option<Side> {
        let back = self.last_mid.get() - mid.get();
        let older = || self.changes.as_ref()?.older.get(mid);
        self.recent
            .sender(back)
            .or_else(|| (back < REACH).then(older)?)
    }

    /// Whether a message whose author is known was recalled.
    pub(super) fn is_recalled(&self, mid: Mid) -> bool {
        let changes = self.changes.as_ref();
        changes.is_some_and(|changes| changes.is_recalled(mid))
    }

    /// The number of the last change.
    pub(super) fn change_seq(&self) -> ChangeSeq {
        self.changes
            .as_ref()
            .map_or(ChangeSeq::ZERO, |changes| changes.change_seq)
    }

    /// The contact state of `side`.
    pub(super) fn contact(&self, side: Side) -> ContactState {
        self.changes
            .as_ref()
            .map_or_else(ContactState::default, |changes| *changes.contact(side))
    }

    /// Whether the other side has blocked `side`.
    pub(super) fn is_blocked(&self, side: Side) -> bool {
        let other = match side {
            Side::Lo => Side::Hi,
            Side::Hi => Side::Lo,
        };
        self.contact(other).flags.blocked
    }

    pub(super) fn changes_mut(&mut self) -> &mut Changes {
        self.changes.get_or_insert_default()
    }

    /// Moves the read positions of `side` on all device classes up to `mid`.
    pub(super) fn read_everywhere(&mut self, side: Side, mid: Mid) {
        for device in DeviceClass::ALL {
            self.read(side, device, mid);
        }
    }

    /// Moves the read position of `side` on `device` up to `mid`. It never goes back or past the last message, whatever the log says.
    pub(super) fn read(&mut self, side: Side, device: DeviceClass, mid: Mid) {
        let position = match side {
            Side::Lo => &mut self.lo_read[device],
            Side::Hi => &mut self.hi_read[device],
        };
        *position = (*position).max(mid.min(self.last_mid));
    }

    fn sent_by(&self, side: Side) -> i64 {
        match side {
            Side::Lo => self.lo_count,
            Side::Hi => self.last_mid.get() - self.lo_count,
        }
    }
}

/// No count is negative, since 0 ≤ lo_count ≤ last_mid.
fn ordinal(count: i64) -> Ordinal {
    Ordinal::try_from(count).unwrap_or(Ordinal::ZERO)
}

#[cfg(test)]
mod tests {
    use schemas::DirectConversation;

    use super::*;

    fn mid(mid: i64) -> Mid {
        Mid::try_from(mid).unwrap()
    }

    #[test]
    fn ordinals_reach_back_128_messages_and_no_further() {
        let mut conversation = Conversation::default();
        // Every third message is lo's: 1, 4, 7 …
        for m in 0..300 {
            conversation.push(if m % 3 == 0 { Side::Lo } else { Side::Hi }, false);
        }
        for m in 172..=300 {
            let by_lo = (m + 2) / 3;
            assert_eq!(
                conversation.count_at(Side::Lo, mid(m)),
                Some(ordinal(by_lo)),
                "{m}"
            );
            assert_eq!(
                conversation.count_at(Side::Hi, mid(m)),
                Some(ordinal(m - by_lo)),
                "{m}"
            );
        }
        assert_eq!(conversation.count_at(Side::Lo, mid(171)), None);
    }

    #[test]
    fn authors_are_known_for_the_newest_4096_messages() {
        let side = |m: i64| if m % 5 == 0 { Side::Lo } else { Side::Hi };
        let mut conversation = Conversation::default();
        for m in 1..=10_000 {
            conversation.push(side(m), m > 9_000);
        }
        for m in 1..=10_000 {
            // Beyond the 128 only the messages that came within reach after 9,000 are known.
            let expected = (m > 9_000 - RecentSenders::REACH).then(|| side(m));
            assert_eq!(conversation.author(mid(m)), expected, "{m}");
        }
        for m in 10_001..=20_000 {
            conversation.push(side(m), true);
        }
        for m in 1..=20_000 {
            let expected = (m > 20_000 - REACH).then(|| side(m));
            assert_eq!(conversation.author(mid(m)), expected, "{m}");
        }
    }

    #[test]
    fn a_read_position_neither_goes_back_nor_past_the_last_message() {
        let mut conversation = Conversation::default();
        conversation.push(Side::Lo, true);
        conversation.push(Side::Lo, true);
        let mut read = |m| {
            conversation.read(Side::Hi, DeviceClass::Pc, mid(m));
            conversation.read_mid(Side::Hi, DeviceClass::Pc)
        };
        assert_eq!(read(9), mid(2));
        assert_eq!(read(1), mid(2));
        assert_eq!(
            conversation.read_mid(Side::Hi, DeviceClass::Mobile),
            Mid::ZERO
        );
    }

    #[test]
    fn a_conversation_costs_what_the_docs_say() {
        // The slot, its key and the table's control byte.
        assert_eq!(size_of::<(DirectConversation, Conversation)>() + 1, 97);
    }
}
