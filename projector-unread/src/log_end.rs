use std::sync::Arc;

use event_log::{EventLogError, LogReader};
use schemas::{LogPosition, NextOffset, Partition, PartitionMap, topics::Topic};

/// How many of a partition's last records are searched for the highest source offset. The last record may be a repeat by a former
/// owner of the sequencer, which does not have the highest one.
const LAST_RECORDS: i64 = 16;

/// The end of each partition of `chat.events`, with the highest source offset before it.
///
/// # Errors
/// [`EventLogError`] where a leader does not answer within 30 s.
pub(crate) async fn log_end(
    log: &Arc<LogReader>,
) -> Result<PartitionMap<LogPosition>, EventLogError> {
    log.blocking(read_end).await
}

fn read_end(log: &LogReader) -> Result<PartitionMap<LogPosition>, EventLogError> {
    let partitions: Vec<Partition> = Partition::all().collect();
    let bounds = log.bounds(Topic::Events, &partitions)?;
    // A watermark that is too low is harmless: repeats are applied again, which changes nothing.
    let newest = log.newest_events(bounds.clone(), LAST_RECORDS)?;
    let end = |partition| {
        let newest = newest.get(partition);
        let watermark = newest.map(|newest| newest.last.offset);
        watermark.unwrap_or_default()
    };
    Ok(bounds
        .into_iter()
        .map(|(partition, bounds)| {
            let position = LogPosition {
                next: NextOffset::new(bounds.end),
                watermark: end(partition),
            };
            (partition, position)
        })
        .collect())
}
