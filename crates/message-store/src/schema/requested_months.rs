//! Months created because rows need them.

use std::collections::{BTreeMap, BTreeSet};

use schemas::TableNumber;

use super::{
    Month, SchemaLock, kept_from,
    months::{months_of_tables, split_off},
};
use crate::{MessageStore, Shard, StoreError, names::Table};

/// Creates the requested months that are missing and before an existing one: the log may be older than the tables, or be read again. True
/// where a month was created or has been dropped for good: then a retry of the write may succeed. The janitor adds months after the newest.
pub(crate) async fn create_requested_months(
    store: &MessageStore,
    shard: Shard,
    requested: &BTreeMap<TableNumber, BTreeSet<Month>>,
) -> Result<bool, StoreError> {
    let mut lock = SchemaLock::take(store, shard).await?;
    let before = store.known_kept_from(shard);
    let kept_from = kept_from(store, shard, &mut lock.session).await?;
    store.learn_kept_from(shard, kept_from);
    let mut changed = kept_from > before;
    let tables = months_of_tables(store, shard, &mut lock.session).await?;
    for (n, months) in requested {
        let (database, table) = store.names().split(Table::ChatMsg, *n);
        let Some(present) = tables.get(&table) else {
            continue;
        };
        let kept = months
            .iter()
            .copied()
            .filter(|month| Some(*month) >= kept_from);
        // Another writer may have created it just now.
        changed |= kept.clone().any(|month| present.contains_key(&month));
        let table = format!("{database}.{table}");
        changed |= split_off(&mut lock.session, &table, present, kept).await? > 0;
    }
    lock.release().await?;
    Ok(changed)
}
