//! The janitor's part: every `chat_msg_<n>` has its months ahead of time. There is no catch-all partition: a row whose
//! month is missing is refused and waits, where a catch-all would have to be split while in use.

use std::collections::BTreeMap;

use schemas::{Partition, TimestampMs};
use sqlx::{Arguments as _, Row as _, mysql::MySqlArguments};

use super::{Month, lock::SchemaLock};
use crate::{MessageStore, Shard, StoreError, names::Table, session::Session};

/// Adds what is missing in every database; how many months were added over all tables.
pub(crate) async fn ensure_months(
    store: &MessageStore,
    now: TimestampMs,
    ahead: u8,
) -> Result<usize, StoreError> {
    let first = Month::of(now)?;
    let mut added = 0;
    for shard in store.layout().shards() {
        let mut lock = SchemaLock::take(store, shard).await?;
        added += add_missing(store, shard, &mut lock.session, first, ahead).await?;
        lock.release().await?;
    }
    Ok(added)
}

/// What is missing in every database, by table; tables that lack nothing are left out.
pub(crate) async fn missing_months(
    store: &MessageStore,
    now: TimestampMs,
    ahead: u8,
) -> Result<BTreeMap<Partition, Vec<Month>>, StoreError> {
    let first = Month::of(now)?;
    let mut missing = BTreeMap::new();
    for shard in store.layout().shards() {
        let mut session = store.session(shard).await?;
        let newest = newest_months(store, shard, &mut session).await?;
        for partition in store.layout().partitions_of(shard) {
            let months = lacking(newest.get(&partition).copied(), first, ahead);
            if !months.is_empty() {
                missing.insert(partition, months);
            }
        }
    }
    Ok(missing)
}

pub(super) async fn add_missing(
    store: &MessageStore,
    shard: Shard,
    session: &mut Session,
    first: Month,
    ahead: u8,
) -> Result<usize, StoreError> {
    let mut added = 0;
    for (partition, newest) in newest_months(store, shard, session).await? {
        let months = lacking(Some(newest), first, ahead);
        if months.is_empty() {
            continue;
        }
        let table = store.names().table(Table::ChatMsg, partition);
        let clauses: Vec<String> = months.iter().map(|month| month.partition()).collect();
        let clauses = clauses.join(", ");
        session
            .execute(format!("ALTER TABLE {table} ADD PARTITION ({clauses})"))
            .await?;
        added += months.len();
    }
    Ok(added)
}

/// The months to add behind the newest one, up to `ahead` after `first`: without a gap, since a range partition also
/// takes what belongs to a month left out before it.
fn lacking(newest: Option<Month>, first: Month, ahead: u8) -> Vec<Month> {
    let Some(newest) = newest else {
        return first.and_ahead(ahead).collect();
    };
    let last = first.and_ahead(ahead).last().unwrap_or(first);
    std::iter::successors(Some(newest.next()), |month| Some(month.next()))
        .take_while(|month| *month <= last)
        .collect()
}

/// The newest month of every `chat_msg_<n>` that exists.
async fn newest_months(
    store: &MessageStore,
    shard: Shard,
    session: &mut Session,
) -> Result<BTreeMap<Partition, Month>, StoreError> {
    let tables: BTreeMap<String, Partition> = store
        .layout()
        .partitions_of(shard)
        .map(|partition| (Table::ChatMsg.name(partition), partition))
        .collect();
    let mut arguments = MySqlArguments::default();
    arguments
        .add(store.names().database(shard))
        .map_err(StoreError::fatal)?;
    let sql = include_str!("../../sql/schema/list_months.sql").to_owned();
    let mut newest = BTreeMap::new();
    for row in session.fetch(sql, arguments).await? {
        let (table, month): (String, String) = (row.try_get("table_name")?, row.try_get("month")?);
        if let Some(partition) = tables.get(&table) {
            let month: Month = month.parse()?;
            let newest = newest.entry(*partition).or_insert(month);
            *newest = month.max(*newest);
        }
    }
    Ok(newest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn month(name: &str) -> Month {
        name.parse().unwrap()
    }

    #[test]
    fn months_are_added_without_a_gap() {
        let lacks = |newest: &str, ahead| lacking(Some(month(newest)), month("p202611"), ahead);
        assert_eq!(
            lacks("p202609", 1),
            ["p202610", "p202611", "p202612"].map(month)
        );
        assert!(lacks("p202612", 1).is_empty());
        assert!(lacks("p203001", 1).is_empty());
        assert_eq!(lacks("p202610", 0), [month("p202611")]);
        assert_eq!(lacking(None, month("p202611"), 0), [month("p202611")]);
    }
}
