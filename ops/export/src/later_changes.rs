//! The changes to messages that come after them on the log, in a temporary file: there may be more than fit into memory.

use std::{
    collections::HashMap,
    fs::File,
    io::{BufReader, BufWriter, Read as _, Seek as _, Write as _},
    ops::{ControlFlow, Range},
};

use event_log::LogReader;
use schemas::{
    ConversationId, Mid, Partition, SourceWatermark, TimestampMs,
    event::{Body, Event},
    topics::Topic,
};

use crate::{ExportError, dataset::Row};

/// The changes of a range of a partition that concern everybody in the conversation, in their order.
pub(crate) struct LaterChanges {
    partition: Partition,
    /// For each change the length of its record's value, in 4 bytes, then the value.
    file: File,
    changes: u64,
}

impl LaterChanges {
    /// Reads the range, whose first record is judged by `watermark`. Blocks.
    pub(crate) fn read(
        reader: &LogReader,
        partition: Partition,
        range: Range<i64>,
        mut watermark: SourceWatermark,
    ) -> Result<Self, ExportError> {
        let mut file = BufWriter::new(tempfile::tempfile()?);
        let mut changes = 0;
        let mut written = Ok(());
        reader.scan(Topic::Events, &[(partition, range)], |record| {
            let Ok(event) = record.event() else {
                // The export itself stops before a record that it does not know.
                return ControlFlow::Continue(());
            };
            if !watermark.admit(event.src.offset) || !concerns_all(&event.body) {
                return ControlFlow::Continue(());
            }
            changes += 1;
            let bytes = record.bytes();
            let length = u32::try_from(bytes.len()).expect("a record has at most 2 GB");
            written = file
                .write_all(&length.to_le_bytes())
                .and_then(|()| file.write_all(bytes));
            match written {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })?;
        written?;
        let file = file.into_inner().map_err(|error| error.into_error())?;
        Ok(Self {
            partition,
            file,
            changes,
        })
    }

    /// Brings rows of the same partition to the state after all changes.
    pub(crate) fn apply(&mut self, rows: &mut [Row]) -> Result<(), ExportError> {
        if self.changes == 0 {
            return Ok(());
        }
        let mut by_message: HashMap<(ConversationId, Mid), Vec<usize>> = HashMap::new();
        for (i, row) in rows.iter().enumerate() {
            if let Some(message) = row.message() {
                by_message.entry(message).or_default().push(i);
            }
        }
        self.file.rewind()?;
        let mut file = BufReader::new(&self.file);
        let mut bytes = Vec::new();
        for _ in 0..self.changes {
            let mut length = [0; 4];
            file.read_exact(&mut length)?;
            bytes.resize(u32::from_le_bytes(length) as usize, 0);
            file.read_exact(&mut bytes)?;
            let event = Event::read(self.partition, &bytes, TimestampMs::default())
                .expect("it was read from the log just so");
            let Body::MessageChange(change) = &event.body else {
                continue;
            };
            let changed = by_message.get(&(change.conversation(), change.mid));
            for i in changed.into_iter().flatten() {
                rows[*i].change(change);
            }
        }
        Ok(())
    }
}

fn concerns_all(body: &Body) -> bool {
    matches!(body, Body::MessageChange(change) if !change.change.is_for_one())
}
