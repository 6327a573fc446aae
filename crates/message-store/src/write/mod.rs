//! The write side: rows and offsets in one transaction.

mod contacts;
mod messages;
mod probe;
mod reads;
mod transaction;

use schemas::Partition;

pub(crate) use contacts::contacts;
pub(crate) use messages::messages;
pub(crate) use probe::probe;
pub(crate) use reads::reads;

use self::transaction::{RowCheck, Transaction};
use crate::{MessageStore, ResumeMove, Shard, Sink, StoreError};

/// Offsets alone.
pub(crate) async fn resume(
    store: &MessageStore,
    shard: Shard,
    sink: Sink,
    topic: &str,
    moves: &[ResumeMove],
) -> Result<(), StoreError> {
    Transaction::new(
        store,
        shard,
        (sink, topic),
        moves,
        Vec::new(),
        RowCheck::All,
    )?
    .commit(store)
    .await
}

/// Rows with the number of their table, in the order in which every writer locks them.
fn by_table<'a, R>(
    store: &MessageStore,
    shard: Shard,
    rows: impl IntoIterator<Item = &'a R>,
    partition_of: impl Fn(&R) -> Partition,
    sort_key: impl Fn(&R) -> (i64, i64),
) -> Result<Vec<(Partition, &'a R)>, StoreError> {
    let mut sorted: Vec<(Partition, &R)> = rows
        .into_iter()
        .map(|row| (partition_of(row), row))
        .collect();
    if let Some((partition, _)) = sorted
        .iter()
        .find(|(n, _)| store.layout().shard_of(*n) != shard)
    {
        return Err(StoreError::fatal(format!(
            "a row of table {partition} does not belong into database {}",
            store.names().database(shard)
        )));
    }
    sorted.sort_by_key(|(partition, row)| (*partition, sort_key(row)));
    Ok(sorted)
}
