//! What the sequencer remembers of one conversation.

use schemas::{DeviceClass, Mid, Ordinal, PerDevice, Side};

/// Who sent the newest 128 messages. Bit i: hi sent the message last_mid − i.
///
/// Two words rather than a u128, whose alignment would cost 16 bytes per conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecentSenders {
    pub(super) low: u64,
    pub(super) high: u64,
}

impl RecentSenders {
    /// How many messages it reaches back.
    const REACH: i64 = 128;

    fn push(&mut self, side: Side) {
        self.high = self.high << 1 | self.low >> 63;
        self.low = self.low << 1 | u64::from(side == Side::Hi);
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

/// One conversation, as its events left it. Always 0 ≤ lo_count ≤ last_mid, and no read mid is above last_mid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Conversation {
    pub(super) last_mid: Mid,
    /// How many of the messages lo sent; hi sent the others.
    pub(super) lo_count: i64,
    pub(super) recent: RecentSenders,
    pub(super) lo_read: PerDevice<Mid>,
    pub(super) hi_read: PerDevice<Mid>,
}

impl Conversation {
    /// How many messages `side` has sent.
    pub(super) fn count(&self, side: Side) -> Ordinal {
        ordinal(self.sent_by(side))
    }

    /// How many messages `side` had sent up to `mid`, which is at most the last; `None` where that was too long ago.
    pub(super) fn count_at(&self, side: Side, mid: Mid) -> Option<Ordinal> {
        let above = self.last_mid.get() - mid.get();
        let by_hi = self.recent.by_hi_among(above)?;
        let by_side = match side {
            Side::Lo => above - by_hi,
            Side::Hi => by_hi,
        };
        Some(ordinal(self.sent_by(side) - by_side))
    }

    /// Up to where `side` has read on `device`.
    pub(super) fn read_mid(&self, side: Side, device: DeviceClass) -> Mid {
        match side {
            Side::Lo => self.lo_read[device],
            Side::Hi => self.hi_read[device],
        }
    }

    /// `side` sent the next message.
    pub(super) fn push(&mut self, side: Side) {
        self.last_mid = self.last_mid.next();
        self.lo_count += i64::from(side == Side::Lo);
        self.recent.push(side);
    }

    /// `side` has read up to `mid` on `device`. Never goes back or past the last message, whatever the log says.
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
            conversation.push(if m % 3 == 0 { Side::Lo } else { Side::Hi });
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
    fn a_read_position_neither_goes_back_nor_past_the_last_message() {
        let mut conversation = Conversation::default();
        conversation.push(Side::Lo);
        conversation.push(Side::Lo);
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
        assert_eq!(size_of::<(DirectConversation, Conversation)>() + 1, 81);
    }
}
