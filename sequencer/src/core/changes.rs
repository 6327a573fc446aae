//! What the state keeps of a conversation beyond its counts, from rule version 3 on: who wrote older messages, which were recalled, and the contact
//! flags of its users.

use schemas::{ChangeSeq, ContactFlags, Mid, Side};

/// The author of a message, and whether it was recalled, are known for this many of the newest messages.
pub(super) const REACH: i64 = 4_096;

/// The parts of the state that few conversations have. A conversation without them has the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// How many changes there were.
    pub(super) change_seq: ChangeSeq,
    pub(super) older: OlderSenders,
    pub(super) recalled: Recalled,
    pub(super) lo: ContactState,
    pub(super) hi: ContactState,
}

/// The contact state of one of the two users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ContactState {
    pub(super) flags: ContactFlags,
    /// The newest message when the user last deleted the contact.
    pub(super) deleted: Mid,
    /// The message up to which the user has cleared the history.
    pub(super) cleared: Mid,
}

impl Changes {
    pub(super) fn contact(&self, side: Side) -> &ContactState {
        match side {
            Side::Lo => &self.lo,
            Side::Hi => &self.hi,
        }
    }

    pub(super) fn contact_mut(&mut self, side: Side) -> &mut ContactState {
        match side {
            Side::Lo => &mut self.lo,
            Side::Hi => &mut self.hi,
        }
    }

    pub(super) fn is_recalled(&self, mid: Mid) -> bool {
        self.recalled.has(mid)
    }

    /// Does nothing if the message is out of reach of the newest one, whatever the log says.
    pub(super) fn recall(&mut self, mid: Mid, last: Mid) {
        self.evict(last);
        if (last.get() - REACH + 1..=last.get()).contains(&mid.get()) {
            self.recalled.add(mid);
        }
    }

    /// Forgets what is out of reach of the newest message.
    pub(super) fn evict(&mut self, last: Mid) {
        let gone = last.get() - REACH;
        self.older.evict(gone);
        self.recalled.evict(gone);
    }
}

/// The recalled messages within reach, one bit for each message from the first recalled one on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Recalled {
    /// The mid of the first bit, a multiple of 64; 0 if there is none.
    pub(super) from: i64,
    /// Bit i of word j: the message `from + 64 j + i` was recalled.
    pub(super) words: Vec<u64>,
}

impl Recalled {
    fn has(&self, mid: Mid) -> bool {
        let place = usize::try_from(mid.get() / 64 - self.from / 64);
        let word = place.ok().and_then(|place| self.words.get(place));
        word.is_some_and(|word| word >> (mid.get() % 64) & 1 == 1)
    }

    fn add(&mut self, mid: Mid) {
        let of_mid = mid.get() - mid.get() % 64;
        if self.words.is_empty() {
            self.from = of_mid;
        }
        while self.from > of_mid {
            self.words.insert(0, 0);
            self.from -= 64;
        }
        let place = (of_mid - self.from) as usize / 64;
        if self.words.len() <= place {
            self.words.resize(place + 1, 0);
        }
        self.words[place] |= 1 << (mid.get() % 64);
    }

    /// Drops the words that have no message above `gone`.
    fn evict(&mut self, gone: i64) {
        let out_of_reach = (gone + 1 - self.from).div_euclid(64);
        let out_of_reach = usize::try_from(out_of_reach).unwrap_or(0);
        if out_of_reach > 0 {
            self.words.drain(..out_of_reach.min(self.words.len()));
            self.from = if self.words.is_empty() {
                0
            } else {
                self.from + 64 * out_of_reach as i64
            };
        }
    }
}

/// Who wrote the messages before those of [`RecentSenders`](super::conversation::RecentSenders), a bit for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OlderSenders {
    /// The mid of the first bit; 0 if there is none.
    pub(super) from: i64,
    /// How many bits there are.
    pub(super) len: i64,
    /// Bit i of word j: hi wrote the message `from + 64 j + i`.
    pub(super) words: Vec<u64>,
}

impl OlderSenders {
    /// Adds the message after the last one.
    pub(super) fn push(&mut self, mid: i64, side: Side) {
        if self.len == 0 {
            self.from = mid;
        }
        if self.len % 64 == 0 {
            self.words.push(0);
        }
        if let Some(word) = self.words.last_mut() {
            *word |= u64::from(side == Side::Hi) << (self.len % 64);
        }
        self.len += 1;
    }

    pub(super) fn get(&self, mid: Mid) -> Option<Side> {
        let place = mid.get().checked_sub(self.from)?;
        if !(0..self.len).contains(&place) {
            return None;
        }
        let word = self.words.get(usize::try_from(place / 64).ok()?)?;
        Some(match word >> (place % 64) & 1 {
            0 => Side::Lo,
            _ => Side::Hi,
        })
    }

    /// Drops the words that have no message above `gone`.
    fn evict(&mut self, gone: i64) {
        while self.len >= 64 && self.from + 63 <= gone {
            self.words.remove(0);
            self.from += 64;
            self.len -= 64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_senders_are_known_within_reach_and_take_half_a_kilobyte() {
        let mut changes = Changes::default();
        let side = |mid: i64| if mid % 3 == 0 { Side::Lo } else { Side::Hi };
        for mid in 5..20_000 {
            changes.older.push(mid, side(mid));
            changes.evict(Mid::try_from(mid + 128).unwrap());
        }
        let get = |mid: i64| changes.older.get(Mid::try_from(mid).unwrap());
        for mid in 20_000 + 128 - REACH..20_000 {
            assert_eq!(get(mid), Some(side(mid)), "{mid}");
        }
        assert_eq!((get(20_000), get(9), get(1)), (None, None, None));
        assert!(changes.older.words.len() <= 63);
    }

    #[test]
    fn only_what_was_recalled_is() {
        let mid = |mid: i64| Mid::try_from(mid).unwrap();
        let mut changes = Changes::default();
        for recalled in [92, 300, 150] {
            changes.recall(mid(recalled), mid(400));
        }
        let found = (1..=400).filter(|number| changes.is_recalled(mid(*number)));
        assert_eq!(found.collect::<Vec<_>>(), [92, 150, 300]);
    }

    #[test]
    fn recalls_are_known_within_reach_and_take_half_a_kilobyte() {
        let mid = |mid: i64| Mid::try_from(mid).unwrap();
        let is_recalled = |number: i64| number % 7 == 0;
        let mut changes = Changes::default();
        for last in 1..20_000 {
            // Some recalls are late, some immediate.
            let back = if last % 2 == 0 { 0 } else { 500 };
            if last > back && is_recalled(last - back) {
                changes.recall(mid(last - back), mid(last));
            }
            changes.evict(mid(last));
            assert!(changes.recalled.words.len() <= 65);
        }
        let newest = 19_999;
        for number in newest - REACH + 1..=newest {
            let recalled_at_once = number % 2 == 0;
            let recalled_late = (number + 500) % 2 == 1 && number + 500 <= newest;
            let expected = is_recalled(number) && (recalled_at_once || recalled_late);
            assert_eq!(changes.is_recalled(mid(number)), expected, "{number}");
        }
        assert!(!changes.is_recalled(mid(7)));
        changes.evict(mid(100_000));
        assert_eq!(changes.recalled, Recalled::default());
    }
}
