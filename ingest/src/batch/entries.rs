//! The entries of a batch's result queue, 16 bytes each.

use std::collections::VecDeque;

use schemas::{Partition, kind::Retry};

/// The outcome of one line so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It was appended; its delivery report has not come.
    Pending { line: u32, partition: Partition },
    /// It is on the log.
    Accepted {
        line: u32,
        partition: Partition,
        offset: i64,
    },
    /// It is not on the log.
    NotAppended { line: u32 },
    /// It may be on the log or not.
    Unknown { line: u32, retry: Retry },
    /// It was refused before an append.
    Refused { line: u32 },
}

impl Entry {
    pub(crate) fn line(self) -> u32 {
        match self {
            Self::Pending { line, .. }
            | Self::Accepted { line, .. }
            | Self::NotAppended { line }
            | Self::Unknown { line, .. }
            | Self::Refused { line } => line,
        }
    }
}

/// How many entries are allocated together. One growing buffer would be copied as it grows, and would never shrink.
const SEGMENT: usize = 1_024;

/// A queue whose entries keep their index while those before them are taken.
#[derive(Default)]
pub(crate) struct Entries {
    segments: VecDeque<Vec<Entry>>,
    /// How many entries of the first segment were taken.
    taken: usize,
    /// The index of the first segment's first entry.
    base: u32,
}

impl Entries {
    /// Adds an entry; returns its index.
    pub(crate) fn push(&mut self, entry: Entry) -> u32 {
        if self
            .segments
            .back()
            .is_none_or(|last| last.len() == SEGMENT)
        {
            self.segments.push_back(Vec::with_capacity(SEGMENT));
        }
        let before = (self.segments.len() - 1) * SEGMENT;
        let last = self
            .segments
            .back_mut()
            .expect("one was added if there was none");
        last.push(entry);
        self.base + (before + last.len() - 1) as u32
    }

    pub(crate) fn first_index(&self) -> u32 {
        self.base + self.taken as u32
    }

    pub(crate) fn first(&self) -> Option<Entry> {
        self.segments.front()?.get(self.taken).copied()
    }

    pub(crate) fn pop(&mut self) -> Option<Entry> {
        let entry = self.first()?;
        self.taken += 1;
        if self.taken == SEGMENT {
            self.segments.pop_front();
            self.taken = 0;
            self.base += SEGMENT as u32;
        }
        Some(entry)
    }

    /// The entry at `index`, unless it was taken or dropped.
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Entry> {
        if index < self.first_index() {
            return None;
        }
        let at = (index - self.base) as usize;
        self.segments.get_mut(at / SEGMENT)?.get_mut(at % SEGMENT)
    }

    /// Drops all entries; indices go on counting.
    pub(crate) fn clear(&mut self) {
        let before = self.segments.len().saturating_sub(1) * SEGMENT;
        let next = before + self.segments.back().map_or(0, Vec::len);
        *self = Self {
            base: self.base + next as u32,
            ..Self::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(line: u32) -> Entry {
        Entry::Refused { line }
    }

    #[test]
    fn an_entry_takes_16_bytes() {
        assert_eq!(size_of::<Entry>(), 16);
    }

    #[test]
    fn indices_stay_while_others_are_taken() {
        let mut queue = Entries::default();
        for line in 0..3_000 {
            assert_eq!(queue.push(entry(line)), line);
        }
        for line in 0..2_500 {
            assert_eq!(queue.first_index(), line);
            assert_eq!(queue.pop(), Some(entry(line)));
        }
        assert!(queue.get_mut(2_499).is_none());
        assert_eq!(queue.get_mut(2_500), Some(&mut entry(2_500)));
        assert_eq!(queue.get_mut(2_999), Some(&mut entry(2_999)));
        assert!(queue.get_mut(3_000).is_none());
        assert_eq!(queue.segments.len(), 1, "what was taken was freed");
    }

    #[test]
    fn indices_go_on_after_clearing() {
        let mut queue = Entries::default();
        for line in 0..1_030 {
            queue.push(entry(line));
        }
        queue.pop();
        queue.clear();
        assert_eq!(queue.first(), None);
        assert!(queue.get_mut(1_029).is_none());
        assert_eq!(queue.push(entry(0)), 1_030);
        assert_eq!(queue.first_index(), 1_030);
    }
}
