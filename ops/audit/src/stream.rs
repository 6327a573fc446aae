use std::ops::{ControlFlow, Range};

use event_log::{LogReader, Record};
use schemas::{Partition, topics::Topic};

use crate::AuditError;

/// Passes the records of `ranges` of `chat.events` to `fold`, until it fails.
pub(crate) fn fold_events(
    reader: &LogReader,
    ranges: &[(Partition, Range<i64>)],
    mut fold: impl FnMut(&Record) -> Result<(), AuditError>,
) -> Result<(), AuditError> {
    let mut folded = Ok(());
    reader.scan(Topic::Events, ranges, |record| {
        folded = fold(&record);
        match folded {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })?;
    folded
}
