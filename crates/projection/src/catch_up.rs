//! Reads what one part of a store lacks, while the projection continues with the other parts.

use std::{collections::BTreeSet, sync::Arc};

use event_log::{KafkaConfig, LogReader};
use schemas::{LogPosition, Partition, PartitionMap};
use tokio::sync::watch;

use crate::{Replay, ReplayError, Settings, Sink, truncation_check};

/// Once a part lacks no more records than this, one more read ends its catch-up.
const CAUGHT_UP_WITHIN: i64 = 1_000;

/// How much may be pending in the sink: this memory comes on top of the projection's.
const MAX_PENDING: usize = 10_000;

/// Reads partitions of `chat.events` into a sink, from its store's positions up to `ends`, which may advance meanwhile. Like a projection, it first
/// makes the truncation check (PROTOCOL S13). Records that are not events are skipped: the projection has dead-lettered them up to `ends`.
///
/// Returns the partitions that cannot catch up, each with what has to be done. In these the log does not agree with the store's position or with the end,
/// or has lost records that the store lacks.
///
/// # Errors
/// The errors of the sink and of the log.
pub async fn catch_up<S: Sink>(
    sink: S,
    kafka: &KafkaConfig,
    partitions: &[Partition],
    ends: watch::Receiver<PartitionMap<LogPosition>>,
    settings: &Settings,
) -> Result<PartitionMap<String>, ReplayError> {
    let log = Arc::new(LogReader::new(kafka)?);
    let max_pending = settings.max_pending.min(MAX_PENDING);
    let mut replay = Replay::begin(sink, Arc::clone(&log), partitions, max_pending).await?;
    let read = replay.positions().clone();
    let with_end = |partition, at| {
        let end = ends.borrow().get(partition).copied();
        BTreeSet::from([at, end.unwrap_or(at)])
    };
    let refused = truncation_check::check_once(&log, read.clone().map(with_end), settings).await?;
    loop {
        let mut ends = ends.borrow().clone().map(|_, end| end.next.get());
        ends.retain(|partition, _| read.contains(partition) && !refused.contains(partition));
        let left = replay.left(&ends);
        // The last read is also a test: if the part cannot take writes, this fails, and the projection goes on without the part.
        replay.up_to(&ends, |_| {}).await?;
        if left <= CAUGHT_UP_WITHIN {
            return Ok(refused);
        }
    }
}
