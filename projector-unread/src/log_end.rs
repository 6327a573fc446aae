//! Where `chat.events` ends, as marks of a new generation need it.

use std::{
    collections::BTreeMap,
    ops::{ControlFlow, Range},
    sync::Arc,
};

use event_log::{KafkaFault, LogReader};
use schemas::{PARTITIONS, Partition, event::SrcMark, topics::Topic};

/// How many of a partition's last records are asked for their source. The last one may be a repeat by a former owner of the sequencer,
/// which is not the highest. A mark that is too low does no harm: what repeats is applied again, which changes nothing.
const LAST_RECORDS: i64 = 16;

/// The next offset and the highest source before it, of each partition.
pub(crate) type LogEnd = [(i64, SrcMark); PARTITIONS as usize];

/// Looks at the ends, and at the last records before them.
///
/// # Errors
/// [`KafkaFault`] where a leader does not answer within 30 s.
pub(crate) async fn log_end(log: &Arc<LogReader>) -> Result<LogEnd, KafkaFault> {
    let log = Arc::clone(log);
    tokio::task::spawn_blocking(move || look(&log))
        .await
        .expect("reading the log does not panic")
}

fn look(log: &LogReader) -> Result<LogEnd, KafkaFault> {
    let partitions: Vec<Partition> = Partition::all().collect();
    let bounds = log.bounds(Topic::Events, &partitions)?;
    let ranges: Vec<(Partition, Range<i64>)> = bounds
        .iter()
        .map(|(p, b)| (*p, b.start.max(b.end - LAST_RECORDS)..b.end))
        .collect();
    let mut highest: BTreeMap<Partition, SrcMark> = BTreeMap::new();
    log.scan(Topic::Events, &ranges, |record| {
        // What is no event has no source; the projection buries it.
        if let Ok(event) = record.event() {
            let mark = highest.entry(record.partition).or_default();
            *mark = (*mark).max(event.src.mark);
        }
        ControlFlow::Continue(())
    })?;
    let mut end = [(0, SrcMark::START); PARTITIONS as usize];
    for (partition, bounds) in bounds {
        let mark = highest.get(&partition).copied().unwrap_or_default();
        end[partition.index()] = (bounds.end, mark);
    }
    Ok(end)
}
