//! The current epoch of `chat.inbound`, to which the positions of callers belong.

use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

use event_log::{EventLogError, LogReader};
use schemas::{Partition, topics::Topic};

/// The highest epoch seen on `chat.events`. An operator who raises the epoch appends to every partition (PROTOCOL S13).
#[derive(Debug, Default)]
pub(crate) struct CurrentEpoch {
    highest: AtomicU32,
    is_read: AtomicBool,
}

impl CurrentEpoch {
    pub(crate) fn get(&self) -> u32 {
        self.highest.load(Ordering::Relaxed)
    }

    /// Whether `chat.events` was read since the start.
    pub(crate) fn is_read(&self) -> bool {
        self.is_read.load(Ordering::Relaxed)
    }

    pub(crate) fn raise(&self, epoch: u32) {
        self.highest.fetch_max(epoch, Ordering::Relaxed);
    }

    /// Reads the last record of every partition of `chat.events`. Blocks.
    pub(crate) fn read_from(&self, reader: &LogReader) -> Result<(), EventLogError> {
        let all: Vec<Partition> = Partition::all().collect();
        let bounds = reader.bounds(Topic::Events, &all)?;
        let lasts: Vec<_> = bounds
            .into_iter()
            .map(|(partition, range)| (partition, range.last(1)))
            .collect();
        reader.scan(Topic::Events, &lasts, |record| {
            // The projectors report records that are not events.
            if let Ok(event) = record.event() {
                self.raise(event.src.offset.epoch);
            }
            ControlFlow::Continue(())
        })?;
        self.is_read.store(true, Ordering::Relaxed);
        Ok(())
    }
}
