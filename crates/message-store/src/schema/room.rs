//! Months that rows ask for.

use std::collections::{BTreeMap, BTreeSet};

use schemas::TableNumber;

use super::{
    Month, SchemaLock, kept_from,
    months::{months_of_tables, split_off},
};
use crate::{MessageStore, Shard, StoreError, names::Table};

/// Makes those of the wanted months that are missing and lie before a month that is there: of a log that is older than the
/// tables, or of one that was read once more. Whether one was made, or is not to be kept any more: then writing may go well now. Months
/// ahead of all others are the janitor's.
pub(crate) async fn make_room(
    store: &MessageStore,
    shard: Shard,
    wanted: &BTreeMap<TableNumber, BTreeSet<Month>>,
) -> Result<bool, StoreError> {
    let mut lock = SchemaLock::take(store, shard).await?;
    let before = store.known_floor(shard);
    let floor = kept_from(store, shard, &mut lock.session).await?;
    store.learn_floor(shard, floor);
    let mut changed = floor > before;
    let tables = months_of_tables(store, shard, &mut lock.session).await?;
    for (n, months) in wanted {
        let (database, table) = store.names().split(Table::ChatMsg, *n);
        let Some(present) = tables.get(&table) else {
            continue;
        };
        let kept = months.iter().copied().filter(|month| Some(*month) >= floor);
        // Somebody else may have made it just now.
        changed |= kept.clone().any(|month| present.contains_key(&month));
        let table = format!("{database}.{table}");
        changed |= split_off(&mut lock.session, &table, present, kept).await? > 0;
    }
    lock.release().await?;
    Ok(changed)
}
