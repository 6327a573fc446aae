//! Reads what one part of a store lacks, beside the projection that goes on with the other parts.

use std::sync::Arc;

use event_log::{KafkaConfig, LogReader};
use schemas::{Partition, PartitionMap};
use tokio::sync::watch;

use crate::{Replay, ReplayError, Settings, Sink, SinkError, truncation_check};

/// A part that lacks no more records than this is read for once more, and has caught up then.
const CLOSE: i64 = 1_000;

/// How much may be pending in the sink: it is held beside what the projection holds.
const MAX_PENDING: usize = 10_000;

/// Reads partitions of `chat.events` into a sink, from its store's positions up to `ends`, which may advance meanwhile. As a
/// projection does, it first makes the truncation check (PROTOCOL S13). Records that are no events are skipped: `ends` are where the projection
/// has dead-lettered them.
///
/// # Errors
/// The sink's, the log's, and where the log does not agree with a position or has lost records that the store lacks: what to do then.
pub async fn catch_up<S: Sink>(
    sink: S,
    kafka: &KafkaConfig,
    ends: watch::Receiver<PartitionMap<i64>>,
    settings: &Settings,
) -> Result<(), ReplayError> {
    let log = Arc::new(LogReader::new(kafka)?);
    let partitions: Vec<Partition> = ends.borrow().partitions().collect();
    let max_pending = settings.max_pending.min(MAX_PENDING);
    let mut replay = Replay::begin(sink, Arc::clone(&log), &partitions, max_pending).await?;
    let refused = truncation_check::check_once(&log, replay.positions(), settings).await?;
    if let Some((partition, why)) = refused.iter().next() {
        return Err(refusal(partition, why));
    }
    loop {
        let ends = ends.borrow().clone();
        let left = replay.left(&ends);
        // Also what is little: a part that cannot write it must not come back.
        replay.up_to(&ends, |_| {}).await?;
        if left <= CLOSE {
            return Ok(());
        }
    }
}

fn refusal(partition: Partition, why: &str) -> ReplayError {
    SinkError::Fatal(format!("partition {partition}: {why}")).into()
}
