//! Where `chat.events` ends, as watermarks of a new generation need it.

use std::sync::Arc;

use event_log::{EventLogError, LogReader};
use schemas::{PARTITIONS, Partition, event::SourceOffset, topics::Topic};

/// How many of a partition's last records are asked for their source. The last one may be a repeat by a former owner of the sequencer,
/// which is not the highest.
const LAST_RECORDS: i64 = 16;

/// The next offset and the highest source before it, of each partition.
pub(crate) type LogEnd = [(i64, SourceOffset); PARTITIONS as usize];

/// Looks at the ends, and at the last records before them.
///
/// # Errors
/// [`EventLogError`] where a leader does not answer within 30 s.
pub(crate) async fn log_end(log: &Arc<LogReader>) -> Result<LogEnd, EventLogError> {
    let log = Arc::clone(log);
    tokio::task::spawn_blocking(move || look(&log))
        .await
        .expect("reading the log does not panic")
}

fn look(log: &LogReader) -> Result<LogEnd, EventLogError> {
    let partitions: Vec<Partition> = Partition::all().collect();
    let bounds = log.bounds(Topic::Events, &partitions)?;
    // A watermark that is too low does no harm: what repeats is applied again, which changes nothing.
    let newest = log.newest_events_within(bounds.clone(), LAST_RECORDS)?;
    let mut end = [(0, SourceOffset::START); PARTITIONS as usize];
    for (partition, bounds) in bounds {
        let watermark = newest.get(&partition).map(|newest| newest.last.offset);
        let watermark = watermark.unwrap_or_default();
        end[partition.index()] = (bounds.end, watermark);
    }
    Ok(end)
}
