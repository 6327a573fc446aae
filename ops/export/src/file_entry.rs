//! The manifest's entry of a range: which file has its rows.

use object_store::path::Path as ObjectPath;
use schemas::{Partition, TimestampMs, event::SourceOffset};
use serde::{Deserialize, Serialize};
use time::{Date, OffsetDateTime};

use crate::{Dataset, ExportError, lake};

/// A range of a partition of `chat.events` and its file. The entry is written first, and the file follows from it and the log: after a crash between
/// the two, the next export writes the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileEntry {
    pub(crate) partition: Partition,
    /// How many entries of the partition were claimed before.
    pub(crate) number: usize,
    /// The first offset of the range.
    pub(crate) from: i64,
    /// The offset after its last.
    pub(crate) to: i64,
    /// How many rows the file has; without any there is no file.
    pub(crate) rows: u64,
    /// The file's folder: the day of its rows, UTC.
    pub(crate) day: Option<String>,
    /// The BLAKE3 hash of the file.
    pub(crate) file_hash: Option<String>,
    /// Messages are in the state before this offset.
    pub(crate) state_to: i64,
    /// The watermark after the range (PROTOCOL S10): epoch and offset.
    pub(crate) watermark: (u32, i64),
}

impl FileEntry {
    /// `file` has the number of rows, their day and the bytes.
    pub(crate) fn new(
        partition: Partition,
        (from, to): (i64, i64),
        file: Option<(u64, Date, &[u8])>,
        state_to: i64,
        watermark: SourceOffset,
    ) -> Self {
        Self {
            partition,
            number: 0,
            from,
            to,
            rows: file.map_or(0, |(rows, _, _)| rows),
            day: file.map(|(_, day, _)| day.to_string()),
            file_hash: file.map(|(_, _, bytes)| blake3::hash(bytes).to_hex().to_string()),
            state_to,
            watermark: (watermark.epoch, watermark.offset),
        }
    }

    /// The same entry, after `number` others of the partition.
    pub(crate) fn numbered(self, number: usize) -> Self {
        Self { number, ..self }
    }

    /// Whether a file of this entry has the same rows as one of `other`. Their states may differ, and the bytes, which another version of this
    /// program may have written.
    pub(crate) fn has_rows_of(&self, other: &Self) -> bool {
        let without_bytes = |entry: &Self| Self {
            file_hash: None,
            state_to: 0,
            ..entry.clone()
        };
        without_bytes(self) == without_bytes(other)
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        other.from < self.to && self.from < other.to
    }

    /// The highest source offset up to the end of the range.
    pub(crate) fn watermark(&self) -> SourceOffset {
        let (epoch, offset) = self.watermark;
        SourceOffset { epoch, offset }
    }

    /// The path of the file; `None` if there are no rows.
    pub(crate) fn path(&self, dataset: Dataset) -> Option<String> {
        let Self {
            partition,
            from,
            to,
            ..
        } = self;
        let (dataset, partition) = (dataset.name(), partition.get());
        let day = self.day.as_ref()?;
        Some(format!(
            "{dataset}/day={day}/p{partition:02}-{from:019}-{to:019}.parquet"
        ))
    }

    pub(crate) fn path_of_entry(&self, dataset: Dataset) -> ObjectPath {
        let folder = lake::entries_folder(dataset, self.partition);
        folder.join(name_of_entry(self.number))
    }

    /// Checks an entry that was found at `path`.
    pub(crate) fn check(
        &self,
        dataset: Dataset,
        partition: Partition,
        path: &ObjectPath,
    ) -> Result<(), ExportError> {
        if self.partition != partition || self.path_of_entry(dataset) != *path {
            return Err(lake::wrong(path, "it is not where it belongs"));
        }
        Ok(())
    }
}

pub(crate) fn name_of_entry(number: usize) -> String {
    format!("{number:09}.json")
}

/// The day of a time, UTC. A time beyond the calendar is on its first day.
pub(crate) fn day_of(ts: TimestampMs) -> Date {
    let seconds = ts.0.div_euclid(1_000);
    OffsetDateTime::from_unix_timestamp(seconds).map_or(Date::MIN, OffsetDateTime::date)
}
