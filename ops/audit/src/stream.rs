use std::{
    iter,
    ops::{ControlFlow, Range},
    sync::{Arc, mpsc},
    thread,
};

use event_log::{LogReader, Record};
use schemas::{Partition, topics::Topic};

use crate::{AuditError, fold::Records};

/// How many records the reading thread may be ahead.
const READ_AHEAD: usize = 1_000;

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

/// The records of a range. They are read on a separate thread, so that two topics can be read at the same time; a [`LogReader`] reads one range at a
/// time.
pub(crate) fn records(
    reader: &Arc<LogReader>,
    topic: Topic,
    partition: Partition,
    range: Range<i64>,
) -> Records {
    if range.is_empty() {
        return Box::new(iter::empty());
    }
    let (sender, receiver) = mpsc::sync_channel(READ_AHEAD);
    let reader = Arc::clone(reader);
    thread::spawn(move || {
        let read = reader.scan(topic, &[(partition, range)], |record| {
            match sender.send(Ok(record)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        if let Err(fault) = read {
            // The receiver may be gone.
            let _ = sender.send(Err(fault));
        }
    });
    Box::new(receiver.into_iter())
}
