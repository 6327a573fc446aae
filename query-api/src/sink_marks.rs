//! How far a MySQL sink has come, read in the snapshot whose rows it is about (PROTOCOL M5, A).

use message_store::{ReadTx, Sink, StoreError};

use crate::{
    after::{Needed, Watermarks},
    error::{Lagging, LaggingStore, QueryError},
};

/// The watermarks of the partitions that `needed` names.
///
/// # Errors
/// Those of the read.
pub(crate) async fn read(
    tx: &mut ReadTx,
    sink: Sink,
    topic: &str,
    needed: &Needed,
) -> Result<Watermarks, StoreError> {
    if needed.is_empty() {
        return Ok(Watermarks::default());
    }
    let resume = tx.resume_offsets(sink, topic, &needed.partitions()).await?;
    Ok(resume
        .into_iter()
        .map(|(p, at)| (p, at.watermark))
        .collect())
}

/// [`read`], where the watermarks have reached what is needed.
///
/// # Errors
/// [`QueryError::Lagging`] where they have not; those of the read.
pub(crate) async fn reached(
    tx: &mut ReadTx,
    sink: Sink,
    topic: &str,
    needed: &Needed,
) -> Result<Watermarks, QueryError> {
    let watermarks = read(tx, sink, topic, needed).await?;
    expect_reached(LaggingStore::Sink(tx.shard(), sink), needed, &watermarks)?;
    Ok(watermarks)
}

/// Checks watermarks that were read before.
///
/// # Errors
/// [`QueryError::Lagging`] with what is missing.
pub(crate) fn expect_reached(
    store: LaggingStore,
    needed: &Needed,
    watermarks: &Watermarks,
) -> Result<(), QueryError> {
    let missing = needed.beyond(watermarks);
    if missing.is_empty() {
        return Ok(());
    }
    Err(QueryError::Lagging(Lagging {
        store,
        needed: missing,
    }))
}
