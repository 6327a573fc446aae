//! The watermarks of a MySQL sink, read in the same snapshot as its rows (PROTOCOL M5, A).

use message_store::{ReadTx, Shard, Sink, StoreError};
use schemas::{NextOffset, Partition};

use crate::{
    after::{RequiredWatermarks, Watermarks},
    call::Call,
    error::{Lag, LaggingStore, QueryError},
    snapshot::Snapshot,
};

/// Reads the watermarks of the partitions in `required`.
pub(crate) async fn read(
    tx: &mut ReadTx,
    sink: Sink,
    topic: &str,
    required: &RequiredWatermarks,
) -> Result<Watermarks, StoreError> {
    if required.is_empty() {
        return Ok(Watermarks::default());
    }
    let resume = tx
        .resume_offsets(sink, topic, &required.partitions())
        .await?;
    Ok(resume.into_iter().collect())
}

/// The next offset of one partition that a sink reads.
pub(crate) async fn next(
    tx: &mut ReadTx,
    sink: Sink,
    call: &Call,
    partition: Partition,
) -> Result<NextOffset, StoreError> {
    let topic = &call.events_topic;
    let resume = tx.resume_offsets(sink, topic, &[partition]).await?;
    Ok(resume[partition].next)
}

/// Opens a snapshot of a database, and reads the watermarks of a sink in it.
///
/// # Errors
/// [`QueryError::Lagging`] if the watermarks have not reached `required`; those of the store.
pub(crate) async fn snapshot(
    call: &Call,
    shard: Shard,
    sink: Sink,
    required: &RequiredWatermarks,
) -> Result<(Snapshot, Watermarks), QueryError> {
    let mut tx = call.snapshot(shard).await?;
    let watermarks = read(&mut tx, sink, &call.events_topic, required).await?;
    expect_reached(LaggingStore::Sink(shard, sink), required, &watermarks)?;
    Ok((tx, watermarks))
}

/// Returns [`QueryError::Lagging`] with what is missing, if something is.
pub(crate) fn expect_reached(
    store: LaggingStore,
    required: &RequiredWatermarks,
    watermarks: &Watermarks,
) -> Result<(), QueryError> {
    let missing = required.missing_in(watermarks);
    if missing.is_empty() {
        return Ok(());
    }
    Err(QueryError::Lagging(Lag { store, missing }))
}
