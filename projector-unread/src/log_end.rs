use std::sync::Arc;

use event_log::{EventLogError, LogReader};
use schemas::{LogPosition, NextOffset, Partition, PartitionMap, topics::Topic};
use tokio::sync::OnceCell;

/// How many of a partition's last records are searched for the highest source offset. The last records may be repeats by a former owner of the sequencer,
/// with lower offsets, until the next event or until the partition is started (PROTOCOL S8).
const LAST_RECORDS: i64 = 1_000;

/// The end of each partition of `chat.events`, with the highest source offset before it: read when it is first needed, and only once,
/// since many slots may begin a generation at a time.
pub(crate) struct LogEnd {
    log: Arc<LogReader>,
    end: OnceCell<PartitionMap<LogPosition>>,
}

impl LogEnd {
    pub(crate) fn new(log: Arc<LogReader>) -> Self {
        Self {
            log,
            end: OnceCell::new(),
        }
    }

    /// # Errors
    /// [`EventLogError`] if a leader does not answer within 30 s.
    pub(crate) async fn get(&self) -> Result<&PartitionMap<LogPosition>, EventLogError> {
        self.end
            .get_or_try_init(|| self.log.blocking(read_end))
            .await
    }
}

fn read_end(log: &LogReader) -> Result<PartitionMap<LogPosition>, EventLogError> {
    let partitions: Vec<Partition> = Partition::all().collect();
    let bounds = log.bounds(Topic::Events, &partitions)?;
    // A watermark that is too low has repeats applied again, which changes nothing.
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
