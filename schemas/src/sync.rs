//! Where an answer of a sync begins and ends: what its token says, and the token of the next answer. No I/O.

use crate::{NextOffset, Partition, PartitionMap, SyncPage, SyncToken};

/// What rows are ordered by: the partition, direct conversations before groups, then the peer or the gid.
pub type RowKey = (Partition, bool, i64);

/// The offset up to which the stores had applied each partition when they were read (PROTOCOL Y2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied(PartitionMap<NextOffset>);

impl Applied {
    /// Adds a store, or a later snapshot of one. The lowest offset of each partition is kept.
    pub fn add(&mut self, store: Self) {
        for (partition, next) in store.0 {
            let lowest = self.0.get_or_insert_with(partition, || next);
            *lowest = next.min(*lowest);
        }
    }

    /// The offset up to which a partition is applied.
    #[must_use]
    pub fn get(&self, partition: Partition) -> NextOffset {
        self.0.get(partition).copied().unwrap_or_default()
    }
}

impl FromIterator<(Partition, NextOffset)> for Applied {
    fn from_iter<I: IntoIterator<Item = (Partition, NextOffset)>>(store: I) -> Self {
        Self(store.into_iter().collect())
    }
}

/// Where an answer begins.
#[derive(Clone, Debug)]
pub struct SyncCursor {
    since: SyncToken,
    /// Whether everything is returned, not only what has changed.
    pub full: bool,
}

impl SyncCursor {
    /// Without a token, or with one of another epoch, everything is returned.
    #[must_use]
    pub fn new(since: Option<SyncToken>, epoch: u32) -> Self {
        match since.filter(|token| token.epoch() == epoch) {
            Some(since) => Self {
                full: since.is_full(),
                since,
            },
            None => Self {
                full: true,
                since: SyncToken::new(epoch, &PartitionMap::new()),
            },
        }
    }

    /// Rows after this key are still to be returned.
    #[must_use]
    pub fn begin(&self) -> RowKey {
        match self.since.page() {
            Some(page) => (page.partition, page.in_groups, page.after),
            None => (Partition::FIRST, false, 0),
        }
    }

    /// A row is returned if its `pos` is at least this: entries of a token are next offsets (PROTOCOL Y3). A row from before positions were stored
    /// has −1.
    #[must_use]
    pub fn least_pos(&self, partition: Partition) -> i64 {
        if self.full {
            return -1;
        }
        self.since.get(partition).get()
    }

    /// The first partition of which a store has not applied what the device knows already (PROTOCOL Y7). In the partition in which a page continues,
    /// the device knows up to the offset that the page fixed.
    #[must_use]
    pub fn first_behind(&self, applied: &Applied) -> Option<(Partition, NextOffset)> {
        let mut known = applied.0.iter().map(|(partition, next)| {
            let page = self.page_of(partition).map(|page| page.applied);
            let since = self.since.get(partition).max(page.unwrap_or_default());
            (partition, *next, since)
        });
        let (partition, _, since) = known.find(|(_, next, since)| next < since)?;
        Some((partition, since))
    }

    /// Whether the store may have deleted a leave that the device lacks: rows of leaves below these offsets may be deleted (PROTOCOL Y8). Never if
    /// everything is returned.
    #[must_use]
    pub fn precedes(&self, forgotten_below: &PartitionMap<i64>) -> bool {
        let (first, ..) = self.begin();
        let lacks = |(partition, below): (Partition, &i64)| {
            partition >= first && self.since.get(partition).get() < *below
        };
        !self.full && forgotten_below.iter().any(lacks)
    }

    /// The token after an answer that ended at `end`, or with the last row. An entry is the offset that was applied when its partition was begun:
    /// later changes come with the next sync (PROTOCOL Y2, Y5, Y6).
    #[must_use]
    pub fn next(&self, end: Option<RowKey>, applied: &Applied) -> SyncToken {
        let fixed = |partition| match self.page_of(partition) {
            Some(page) => page.applied,
            None => applied.get(partition),
        };
        let (first, ..) = self.begin();
        let mut next = self.since.clone();
        for partition in Partition::all().filter(|partition| *partition >= first) {
            if end.is_none_or(|(end, ..)| partition < end) {
                next.advance(partition, fixed(partition));
            }
        }
        next.with_page(end.map(|(partition, in_groups, after)| SyncPage {
            partition,
            in_groups,
            after,
            applied: fixed(partition),
            full: self.full,
        }))
    }

    fn page_of(&self, partition: Partition) -> Option<SyncPage> {
        self.since.page().filter(|page| page.partition == partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(number: i64) -> Partition {
        number.try_into().unwrap()
    }

    fn applied(next: i64) -> Applied {
        let all = Partition::all();
        all.map(|partition| (partition, NextOffset::new(next)))
            .collect()
    }

    fn of_one(number: i64, next: i64) -> Applied {
        [(partition(number), NextOffset::new(next))]
            .into_iter()
            .collect()
    }

    fn entries(token: &SyncToken) -> Vec<i64> {
        [0, 4, 5, 6, 63]
            .map(|n| token.get(partition(n)).get())
            .into()
    }

    #[test]
    fn of_several_stores_the_lowest_position_counts() {
        let mut both = applied(9);
        both.add(of_one(5, 7));
        both.add(of_one(5, 8));
        let token = SyncCursor::new(None, 0).next(None, &both);
        assert_eq!(entries(&token), [9, 9, 7, 9, 9]);
    }

    #[test]
    fn a_token_never_falls() {
        let first = SyncCursor::new(None, 0).next(None, &applied(9));
        let second = SyncCursor::new(Some(first), 0).next(None, &applied(5));
        assert_eq!(entries(&second), [9; 5]);
    }

    #[test]
    fn pages_fix_the_entry_of_a_partition_when_they_begin_it() {
        let begin = SyncCursor::new(None, 3);
        let end = (partition(5), false, 77);
        let first = begin.next(Some(end), &applied(10));
        assert_eq!(entries(&first), [10, 10, 0, 0, 0]);

        let second = SyncCursor::new(Some(first), 3);
        assert!(second.full);
        assert_eq!(second.begin(), end);
        // The page ends in the same partition, and then after it.
        let same = second.next(Some((partition(5), true, 78)), &applied(20));
        assert_eq!(entries(&same), [10, 10, 0, 0, 0]);
        let third = SyncCursor::new(Some(same), 3);
        let last = third.next(None, &applied(30));
        assert_eq!(entries(&last), [10, 10, 10, 30, 30]);
        assert_eq!(last.page(), None);
        assert!(!SyncCursor::new(Some(last), 3).full);
    }

    #[test]
    fn a_store_is_behind_where_it_lacks_what_the_device_knows() {
        let since = SyncCursor::new(None, 0).next(None, &applied(10));
        let cursor = SyncCursor::new(Some(since.clone()), 0);
        assert_eq!(cursor.first_behind(&applied(10)), None);
        let behind = Some((partition(0), NextOffset::new(10)));
        assert_eq!(cursor.first_behind(&applied(9)), behind);
        // A store that was read for one partition is checked for that one only.
        let one = of_one(6, 12);
        assert_eq!(cursor.first_behind(&one), None);

        let page = cursor.next(Some((partition(6), false, 1)), &applied(15));
        let cursor = SyncCursor::new(Some(page), 0);
        let behind = Some((partition(6), NextOffset::new(15)));
        assert_eq!(cursor.first_behind(&one), behind);
    }

    #[test]
    fn a_token_from_before_what_is_forgotten_precedes_it() {
        let below: PartitionMap<i64> = [(partition(5), 10)].into_iter().collect();
        let token = SyncCursor::new(None, 0).next(None, &applied(10));
        assert!(!SyncCursor::new(Some(token), 0).precedes(&below));
        let token = SyncCursor::new(None, 0).next(None, &applied(9));
        let cursor = SyncCursor::new(Some(token), 0);
        assert!(cursor.precedes(&below));
        // Between pages the offset matters until its partition is done, and never if everything is returned.
        for (end, precedes) in [(5, true), (6, false)] {
            let page = cursor.next(Some((partition(end), true, 1)), &applied(20));
            assert_eq!(SyncCursor::new(Some(page), 0).precedes(&below), precedes);
        }
        assert!(!SyncCursor::new(None, 0).precedes(&below));
    }

    #[test]
    fn a_token_of_another_epoch_says_nothing() {
        let token = SyncCursor::new(None, 1).next(None, &applied(10));
        for (epoch, full) in [(1, false), (2, true), (0, true)] {
            let cursor = SyncCursor::new(Some(token.clone()), epoch);
            let least = if full { -1 } else { 10 };
            assert_eq!((cursor.full, cursor.least_pos(partition(9))), (full, least));
            assert_eq!(cursor.next(None, &applied(4)).epoch(), epoch);
        }
    }
}
