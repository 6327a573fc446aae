//! Turns the events of a range into files.

use std::sync::Arc;

use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    file::{
        metadata::KeyValue,
        properties::{EnabledStatistics, WriterProperties},
    },
};
use schemas::{Partition, SourceWatermark, event::Event};
use time::Date;

use crate::{
    Dataset, ExportError, Privacy,
    columns::MEANING,
    dataset::{MessageState, Row},
    file_entry::{FileEntry, day_of},
    later_changes::LaterChanges,
    table::Table,
};

/// A row group is written when it has this many rows, or takes this many bytes in memory.
const ROWS_OF_GROUP: usize = 1 << 16;
const BYTES_OF_GROUP: usize = 16 << 20;

/// A file ends after the row group with which it has this many rows, or bytes.
const ROWS_OF_FILE: u64 = 1 << 20;
const BYTES_OF_FILE: usize = 32 << 20;

/// Takes a file and its entry.
pub(crate) type Commit<'a> = dyn FnMut(FileEntry, Option<Vec<u8>>) -> Result<(), ExportError> + 'a;

/// The files of a range of a partition. Where a file ends follows from the range's beginning, the events and the state of the messages. The last file
/// ends with the range.
pub(crate) struct RangeWriter<'a> {
    dataset: Dataset,
    partition: Partition,
    state_to: i64,
    later: Option<LaterChanges>,
    /// The range is that of one file, which was claimed.
    is_one_file: bool,
    commit: &'a mut Commit<'a>,
    watermark: SourceWatermark,
    /// Where the present file begins.
    from: i64,
    day: Option<Date>,
    group: Vec<Row>,
    group_bytes: usize,
    table: Table,
    properties: WriterProperties,
    file: Option<ArrowWriter<Vec<u8>>>,
    rows: u64,
}

impl<'a> RangeWriter<'a> {
    /// Begins at offset `from`. `later` are the changes up to `state_to`, if the dataset depends on them.
    pub(crate) fn new(
        (dataset, privacy): (Dataset, &Privacy),
        partition: Partition,
        from: i64,
        watermark: SourceWatermark,
        (state_to, later): (i64, Option<LaterChanges>),
        is_one_file: bool,
        commit: &'a mut Commit<'a>,
    ) -> Self {
        let table = Table::new(dataset, privacy);
        Self {
            dataset,
            partition,
            state_to,
            later,
            is_one_file,
            commit,
            watermark,
            from,
            day: None,
            group: Vec::new(),
            group_bytes: 0,
            properties: properties(dataset, &table),
            table,
            file: None,
            rows: 0,
        }
    }

    /// Takes the event at the next offset.
    pub(crate) fn take(&mut self, offset: i64, event: Event) -> Result<(), ExportError> {
        let before = self.watermark;
        if !self.watermark.admit(event.src.offset) || !self.dataset.has(&event.body) {
            return Ok(());
        }
        let day = day_of(event.ts);
        if self.day.is_some_and(|of_file| of_file != day) {
            self.end_file(offset, before)?;
        }
        self.day = Some(day);
        let row = Row {
            partition: self.partition,
            offset,
            event,
            state: MessageState::default(),
        };
        self.group_bytes += row.bytes();
        self.group.push(row);
        if self.group.len() >= ROWS_OF_GROUP || self.group_bytes >= BYTES_OF_GROUP {
            self.write_group()?;
            let bytes = self.file.as_ref().map_or(0, ArrowWriter::bytes_written);
            let is_full = self.rows >= ROWS_OF_FILE || bytes >= BYTES_OF_FILE;
            if is_full && !self.is_one_file {
                self.end_file(offset + 1, self.watermark)?;
            }
        }
        Ok(())
    }

    /// Ends the range before the offset `to`.
    pub(crate) fn finish(mut self, to: i64) -> Result<(), ExportError> {
        if self.from < to {
            self.end_file(to, self.watermark)?;
        }
        Ok(())
    }

    fn write_group(&mut self) -> Result<(), ExportError> {
        if self.group.is_empty() {
            return Ok(());
        }
        if let Some(later) = &mut self.later {
            later.apply(&mut self.group)?;
        }
        for row in self.group.drain(..) {
            self.table.push(&row);
            self.rows += 1;
        }
        self.group_bytes = 0;
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let schema = Arc::clone(self.table.schema());
                let properties = self.properties.clone();
                none.insert(ArrowWriter::try_new(Vec::new(), schema, Some(properties))?)
            }
        };
        file.write(&self.table.finish())?;
        Ok(file.flush()?)
    }

    fn end_file(&mut self, to: i64, watermark: SourceWatermark) -> Result<(), ExportError> {
        self.write_group()?;
        let bytes = self.file.take().map(ArrowWriter::into_inner).transpose()?;
        let file = bytes.as_deref().zip(self.day);
        let entry = FileEntry::new(
            self.partition,
            (self.from, to),
            file.map(|(bytes, day)| (self.rows, day, bytes)),
            self.state_to,
            watermark.highest().unwrap_or_default(),
        );
        (self.commit)(entry, bytes)?;
        self.from = to;
        self.day = None;
        self.rows = 0;
        Ok(())
    }
}

/// The same rows give the same bytes, by the same version of this program.
fn properties(dataset: Dataset, table: &Table) -> WriterProperties {
    let meanings: serde_json::Map<_, _> = table
        .schema()
        .fields()
        .iter()
        .map(|field| {
            (
                field.name().clone(),
                field.metadata()[MEANING].clone().into(),
            )
        })
        .collect();
    let meanings = serde_json::Value::from(meanings).to_string();
    let metadata = [
        ("tidemark.dataset", dataset.name().to_owned()),
        ("tidemark.columns", meanings),
    ];
    WriterProperties::builder()
        .set_created_by("tidemark".to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(None)
        .set_key_value_metadata(Some(
            metadata
                .map(|(key, value)| KeyValue::new(key.to_owned(), value))
                .into(),
        ))
        .build()
}
