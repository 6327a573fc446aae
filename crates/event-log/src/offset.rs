use std::fmt;

use schemas::event::SrcMark;

/// The offset of the next record to read: one above the last record taken. What offset rows and commits hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextOffset(i64);

impl NextOffset {
    /// Before the first record.
    pub const START: Self = Self(0);

    /// `next` is the offset of the record to read next, at least 0.
    #[must_use]
    pub fn new(next: i64) -> Self {
        Self(next.max(0))
    }

    /// Behind the record at `offset`.
    #[must_use]
    pub fn after(offset: i64) -> Self {
        Self(offset + 1)
    }

    /// The offset of the next record.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for NextOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The readers' rule (PROTOCOL S10): a record of `chat.events` counts only if its mark is above the highest so far.
/// A former owner that wakes up appends decisions again; this is what makes the log one sequence.
#[derive(Clone, Copy, Debug, Default)]
pub struct RisingMarks {
    highest: Option<SrcMark>,
}

impl RisingMarks {
    /// Goes on above `mark`, which the reader kept with its data.
    #[must_use]
    pub fn above(mark: SrcMark) -> Self {
        Self {
            highest: Some(mark),
        }
    }

    /// Begins with the first record that comes.
    #[must_use]
    pub fn from_anywhere() -> Self {
        Self { highest: None }
    }

    /// Whether the record with this mark counts; if so, it is the highest now.
    pub fn admit(&mut self, mark: SrcMark) -> bool {
        let rises = self.highest.is_none_or(|highest| mark > highest);
        if rises {
            self.highest = Some(mark);
        }
        rises
    }

    /// The highest mark so far.
    #[must_use]
    pub fn highest(&self) -> Option<SrcMark> {
        self.highest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_and_the_past_do_not_count() {
        let mark = |offset| SrcMark { epoch: 0, offset };
        let mut marks = RisingMarks::above(mark(4));
        assert!(!marks.admit(mark(4)));
        assert!(marks.admit(mark(6)));
        assert!(!marks.admit(mark(5)));
        assert!(marks.admit(SrcMark {
            epoch: 1,
            offset: -1
        }));
        assert!(!marks.admit(mark(7)));
        assert!(RisingMarks::from_anywhere().admit(SrcMark::START));
    }
}
