//! What an export would write, judged by a sample.

use std::{
    cmp::Reverse,
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use event_log::LogReader;
use schemas::{Partition, SourceWatermark};

use crate::{Bounds, Export, ExportError, file_entry::FileEntry, run, writer::RangeWriter};

/// How many records of a range are exported as a sample that is written nowhere, and of how many ranges.
const SAMPLE: i64 = 10_000;
const SAMPLED_RANGES: usize = 4;

/// About what an export would write.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Records in the ranges that are not exported yet; exact.
    pub records: u64,
    /// Rows.
    pub rows: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// How long it would take.
    pub time: Duration,
}

impl Export {
    /// Exports the last records of some ranges that have no files, without writing them, and estimates the rest from these. Changes nothing in the lake.
    ///
    /// # Errors
    /// [`ExportError`].
    pub async fn estimate(&self, bounds: Bounds) -> Result<Estimate, ExportError> {
        let log = self.log().await?;
        let (_, gaps) = self.planned(bounds, &log).await?;
        let missing = gaps.into_iter().map(|gap| (gap.partition, gap.range));
        let missing = missing.collect();
        let reader = Arc::new(LogReader::new(&self.kafka)?);
        let export = self.clone();
        reader
            .blocking(move |reader| export.sample(reader, missing))
            .await
    }

    fn sample(
        &self,
        reader: &LogReader,
        mut missing: Vec<(Partition, Range<i64>)>,
    ) -> Result<Estimate, ExportError> {
        let count = |range: &Range<i64>| (range.end - range.start).max(0);
        let records: i64 = missing.iter().map(|(_, range)| count(range)).sum();
        missing.sort_by_key(|(_, range)| Reverse(count(range)));
        let (mut read, mut rows, mut bytes) = (0, 0, 0);
        let started = Instant::now();
        for (partition, range) in missing.into_iter().take(SAMPLED_RANGES) {
            let sample = range.start.max(range.end - SAMPLE)..range.end;
            read += count(&sample);
            let mut commit = |entry: FileEntry, file: Option<Vec<u8>>| {
                rows += entry.rows;
                bytes += file.map_or(0, |file| file.len() as u64);
                Ok(())
            };
            let mut writer = RangeWriter::new(
                (self.dataset, &self.privacy),
                partition,
                sample.start,
                SourceWatermark::from_anywhere(),
                (sample.end, None),
                false,
                &mut commit,
            );
            run::scan_into(reader, partition, sample.clone(), &mut writer, || {})?;
            writer.finish(sample.end)?;
        }
        let factor = records as f64 / read.max(1) as f64;
        let of_all = |part: u64| (part as f64 * factor) as u64;
        Ok(Estimate {
            records: records.cast_unsigned(),
            rows: of_all(rows),
            bytes: of_all(bytes),
            time: started.elapsed().mul_f64(factor),
        })
    }
}
