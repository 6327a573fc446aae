//! A queue of the lines that wait for their result, 16 bytes each.

use std::collections::VecDeque;

use schemas::Partition;

use crate::posted::EventKind;

/// What became of one line so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// It was appended; its delivery report has not come.
    Pending { line: u32, partition: Partition },
    /// It is on the log.
    Accepted {
        line: u32,
        partition: Partition,
        offset: i64,
    },
    /// It is not on the log, or not known to be.
    Failed {
        line: u32,
        kind: EventKind,
        failure: Failure,
    },
    /// Its result was written when it was refused.
    Refused { line: u32 },
}

/// Why an append did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It may be on the log or not.
    Unknown,
    /// It is not on the log.
    NotAppended,
}

impl Slot {
    pub(crate) fn line(self) -> u32 {
        match self {
            Self::Pending { line, .. }
            | Self::Accepted { line, .. }
            | Self::Failed { line, .. }
            | Self::Refused { line } => line,
        }
    }

    pub(crate) fn is_pending(self) -> bool {
        matches!(self, Self::Pending { .. })
    }
}

/// How many slots come and go together. One growing buffer would be copied as it grows and never shrink.
const SEGMENT: usize = 1_024;

/// A queue whose elements keep their index while those before them are taken.
#[derive(Default)]
pub(crate) struct SlotQueue {
    segments: VecDeque<Vec<Slot>>,
    /// How many elements of the first segment were taken.
    taken: usize,
    /// The index of the first segment's first element.
    base: u32,
}

impl SlotQueue {
    /// Adds an element; answers its index.
    pub(crate) fn push(&mut self, slot: Slot) -> u32 {
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
        last.push(slot);
        self.base + (before + last.len() - 1) as u32
    }

    /// The oldest element's index.
    pub(crate) fn first_index(&self) -> u32 {
        self.base + self.taken as u32
    }

    /// The oldest element.
    pub(crate) fn first(&self) -> Option<Slot> {
        self.segments.front()?.get(self.taken).copied()
    }

    /// Takes the oldest element.
    pub(crate) fn pop(&mut self) -> Option<Slot> {
        let slot = self.first()?;
        self.taken += 1;
        if self.taken == SEGMENT {
            self.segments.pop_front();
            self.taken = 0;
            self.base += SEGMENT as u32;
        }
        Some(slot)
    }

    /// The element at `index`, unless it was taken or cleared.
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Slot> {
        if index < self.first_index() {
            return None;
        }
        let place = (index - self.base) as usize;
        self.segments
            .get_mut(place / SEGMENT)?
            .get_mut(place % SEGMENT)
    }

    /// Drops all elements; later ones go on counting.
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

    fn slot(line: u32) -> Slot {
        Slot::Refused { line }
    }

    #[test]
    fn a_slot_takes_16_bytes() {
        assert_eq!(size_of::<Slot>(), 16);
    }

    #[test]
    fn indices_stay_while_others_are_taken() {
        let mut queue = SlotQueue::default();
        for line in 0..3_000 {
            assert_eq!(queue.push(slot(line)), line);
        }
        for line in 0..2_500 {
            assert_eq!(queue.first_index(), line);
            assert_eq!(queue.pop(), Some(slot(line)));
        }
        assert!(queue.get_mut(2_499).is_none());
        assert_eq!(queue.get_mut(2_500), Some(&mut slot(2_500)));
        assert_eq!(queue.get_mut(2_999), Some(&mut slot(2_999)));
        assert!(queue.get_mut(3_000).is_none());
        assert_eq!(queue.segments.len(), 1, "what was taken was freed");
    }

    #[test]
    fn clearing_keeps_the_count() {
        let mut queue = SlotQueue::default();
        for line in 0..1_030 {
            queue.push(slot(line));
        }
        queue.pop();
        queue.clear();
        assert_eq!(queue.first(), None);
        assert!(queue.get_mut(1_029).is_none());
        assert_eq!(queue.push(slot(0)), 1_030);
        assert_eq!(queue.first_index(), 1_030);
    }
}
