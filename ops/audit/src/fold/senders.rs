/// The sender of each message of a conversation: one bit per message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Senders(Vec<u64>);

impl Senders {
    /// Sets whether the message `mid`, at least 1, is by hi or by lo.
    pub(crate) fn set(&mut self, mid: i64, by_hi: bool) {
        let Ok(at) = usize::try_from(mid - 1) else {
            return;
        };
        if self.0.len() <= at / 64 {
            self.0.resize(at / 64 + 1, 0);
        }
        let bit = 1 << (at % 64);
        if by_hi {
            self.0[at / 64] |= bit;
        } else {
            self.0[at / 64] &= !bit;
        }
    }

    /// Whether the message `mid` is by hi.
    pub(crate) fn is_by_hi(&self, mid: i64) -> bool {
        let at = usize::try_from(mid - 1).unwrap_or(usize::MAX);
        let word = self.0.get(at / 64);
        word.is_some_and(|word| word & (1 << (at % 64)) != 0)
    }

    /// How many of the messages above `after` and up to `upto` hi sent.
    pub(crate) fn by_hi(&self, after: i64, upto: i64) -> i64 {
        self.up_to(upto) - self.up_to(after.min(upto))
    }

    fn up_to(&self, mid: i64) -> i64 {
        let mid = usize::try_from(mid).unwrap_or(0);
        let whole: u32 = self
            .0
            .iter()
            .take(mid / 64)
            .map(|word| word.count_ones())
            .sum();
        let rest = self
            .0
            .get(mid / 64)
            .map_or(0, |word| (word & ((1 << (mid % 64)) - 1)).count_ones());
        i64::from(whole) + i64::from(rest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_counts_as_a_list_would(by_hi in proptest::collection::vec(any::<bool>(), 0..300), a in 0..300_usize, b in 0..300_usize) {
            let (a, b) = (a.min(b).min(by_hi.len()), a.max(b).min(by_hi.len()));
            let mut senders = Senders::default();
            for (i, hi) in by_hi.iter().enumerate() {
                senders.set(i as i64 + 1, *hi);
            }
            let wanted = by_hi[a..b].iter().filter(|hi| **hi).count();
            prop_assert_eq!(senders.by_hi(a as i64, b as i64), wanted as i64);
            for (i, hi) in by_hi.iter().enumerate() {
                prop_assert_eq!(senders.is_by_hi(i as i64 + 1), *hi);
            }
            prop_assert!(!senders.is_by_hi(by_hi.len() as i64 + 1));
        }
    }
}
