//! The watermarks of a MySQL sink, read in the same snapshot as its rows (PROTOCOL M5, A).

use message_store::{ReadTx, Sink, StoreError};

use crate::{
    after::{RequiredWatermarks, Watermarks},
    error::{Lag, LaggingStore, QueryError},
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
    Ok(resume
        .into_iter()
        .map(|(p, at)| (p, at.watermark))
        .collect())
}

/// [`read`], or [`QueryError::Lagging`] where the watermarks have not reached `required`.
pub(crate) async fn reached(
    tx: &mut ReadTx,
    sink: Sink,
    topic: &str,
    required: &RequiredWatermarks,
) -> Result<Watermarks, QueryError> {
    let watermarks = read(tx, sink, topic, required).await?;
    expect_reached(LaggingStore::Sink(tx.shard(), sink), required, &watermarks)?;
    Ok(watermarks)
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
