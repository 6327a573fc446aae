//! Reads what one part of a store lacks, while the projection continues with the other parts.

use std::{collections::BTreeSet, sync::Arc};

use event_log::{KafkaConfig, LogReader};
use schemas::{LogPosition, Partition, PartitionMap};
use tokio::sync::watch;

use crate::{Replay, ReplayError, Settings, Sink, truncation_check};

/// A part that lacks no more records than this is read once more; then it has caught up.
const CLOSE: i64 = 1_000;

/// How much may be pending in the sink: this memory comes on top of the projection's.
const MAX_PENDING: usize = 10_000;

/// Reads partitions of `chat.events` into a sink, from its store's positions up to `ends`, which may advance meanwhile. Like a projection, it first
/// makes the truncation check (PROTOCOL S13). Records that are not events are skipped: the projection has dead-lettered them up to `ends`.
///
/// Returns the partitions that stay behind, and what has to be done: the log does not agree with their position or their end, or has lost
/// records that the store lacks.
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
        // A small remainder is written, too: a part that cannot write it must not come back.
        replay.up_to(&ends, |_| {}).await?;
        if left <= CLOSE {
            return Ok(refused);
        }
    }
}
