use std::{fmt, ops::Range};

use crate::event::SourceOffset;

/// The offset of the next record to read, one above the last record processed. Committed offsets and offset rows hold it.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(transparent)]
pub struct NextOffset(i64);

impl NextOffset {
    /// The position before the first record.
    pub const START: Self = Self(0);

    /// `next` is the offset of the record to read next, at least 0.
    #[must_use]
    pub fn new(next: i64) -> Self {
        Self(next.max(0))
    }

    /// The offset after the record at `offset`.
    #[must_use]
    pub fn after(offset: i64) -> Self {
        Self(offset + 1)
    }

    /// The offset as a number.
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

/// The offsets that a partition of a topic holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetRange {
    /// The first offset retained.
    pub start: i64,
    /// The offset that the next record will take.
    pub end: i64,
}

impl OffsetRange {
    /// The offsets of the last `records` records, or fewer.
    #[must_use]
    pub fn last(self, records: i64) -> Range<i64> {
        self.start.max(self.end.saturating_sub(records))..self.end
    }
}

/// How far a partition of `chat.events` is processed. A store keeps it with its data, and reading resumes at it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition {
    /// The offset of the next record to read.
    pub next: NextOffset,
    /// The highest source offset of the records before `next`. Only records above it are taken (PROTOCOL S10).
    pub watermark: SourceOffset,
}

/// The readers' rule (PROTOCOL S10): a reader takes a record of `chat.events` only if its source offset is above the highest so far. A former owner
/// of a partition that resumes may append its decisions again; this rule skips them.
#[derive(Clone, Copy, Debug, Default)]
pub struct SourceWatermark {
    highest: Option<SourceOffset>,
}

impl SourceWatermark {
    /// Takes only records above `watermark`, which the reader kept with its data.
    #[must_use]
    pub fn above(watermark: SourceOffset) -> Self {
        Self {
            highest: Some(watermark),
        }
    }

    /// Takes the first record whatever its source offset is.
    #[must_use]
    pub fn from_anywhere() -> Self {
        Self { highest: None }
    }

    /// Whether to take the record with this source offset. If so, it becomes the watermark.
    pub fn admit(&mut self, source: SourceOffset) -> bool {
        let rises = self.highest.is_none_or(|highest| source > highest);
        if rises {
            self.highest = Some(source);
        }
        rises
    }

    /// The highest source offset so far.
    #[must_use]
    pub fn highest(&self) -> Option<SourceOffset> {
        self.highest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rising_source_offsets_are_admitted() {
        let source = |offset| SourceOffset { epoch: 0, offset };
        let mut watermark = SourceWatermark::above(source(4));
        assert!(!watermark.admit(source(4)));
        assert!(watermark.admit(source(6)));
        assert!(!watermark.admit(source(5)));
        assert!(watermark.admit(SourceOffset {
            epoch: 1,
            offset: -1
        }));
        assert!(!watermark.admit(source(7)));
        assert!(SourceWatermark::from_anywhere().admit(SourceOffset::START));
    }
}
