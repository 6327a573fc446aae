use std::fmt;

use crate::event::SourceOffset;

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

/// How far a partition of `chat.events` is processed: what a store keeps with its data, and where reading goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition {
    /// The offset of the next record to read.
    pub next: NextOffset,
    /// The highest source offset among the records before it; only what is above it counts (PROTOCOL S10).
    pub watermark: SourceOffset,
}

/// The readers' rule (PROTOCOL S10): a record of `chat.events` counts only if its watermark is above the highest so far.
/// A former owner that wakes up appends decisions again; this is what makes the log one sequence.
#[derive(Clone, Copy, Debug, Default)]
pub struct SourceWatermark {
    highest: Option<SourceOffset>,
}

impl SourceWatermark {
    /// Goes on above `watermark`, which the reader kept with its data.
    #[must_use]
    pub fn above(watermark: SourceOffset) -> Self {
        Self {
            highest: Some(watermark),
        }
    }

    /// Begins with the first record that comes.
    #[must_use]
    pub fn from_anywhere() -> Self {
        Self { highest: None }
    }

    /// Whether the record with this watermark counts; if so, it is the highest now.
    pub fn admit(&mut self, watermark: SourceOffset) -> bool {
        let rises = self.highest.is_none_or(|highest| watermark > highest);
        if rises {
            self.highest = Some(watermark);
        }
        rises
    }

    /// The highest watermark so far.
    #[must_use]
    pub fn highest(&self) -> Option<SourceOffset> {
        self.highest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_and_the_past_do_not_count() {
        let watermark = |offset| SourceOffset { epoch: 0, offset };
        let mut watermarks = SourceWatermark::above(watermark(4));
        assert!(!watermarks.admit(watermark(4)));
        assert!(watermarks.admit(watermark(6)));
        assert!(!watermarks.admit(watermark(5)));
        assert!(watermarks.admit(SourceOffset {
            epoch: 1,
            offset: -1
        }));
        assert!(!watermarks.admit(watermark(7)));
        assert!(SourceWatermark::from_anywhere().admit(SourceOffset::START));
    }
}
