//! The janitor's part: every `chat_msg_<n>` has its months ahead of time. There is no catch-all partition: a row whose
//! month is missing is refused and waits, where a catch-all would have to be split while in use. The first range takes what lies
//! before it, too; but a writer names the month of every row, and the server refuses a row that would go elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use schemas::{TableNumber, TimestampMs};
use sqlx::Row as _;

use super::{Month, lock::SchemaLock};
use crate::{
    MessageStore, Shard, StoreError, arguments::Arguments, names::Table, session::Session,
};

/// One month of one `chat_msg_<n>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonthSize {
    /// How many rows, as the server guesses.
    pub rows: i64,
    /// How many bytes rows and indexes take.
    pub bytes: i64,
}

impl MessageStore {
    /// Adds the months that are missing, up to `ahead` months after that of `now`; how many were added over all tables.
    ///
    /// # Errors
    /// Transient where a table is in use for too long.
    pub async fn ensure_months(&self, now: TimestampMs, ahead: u8) -> Result<usize, StoreError> {
        let first = Month::of(now)?;
        let mut added = 0;
        for shard in self.layout().shards() {
            let mut lock = SchemaLock::take(self, shard).await?;
            added += add_missing(self, shard, &mut lock.session, first, ahead).await?;
            lock.release().await?;
        }
        Ok(added)
    }

    /// The months up to `ahead` after that of `now` that are missing, by table.
    ///
    /// # Errors
    /// As all reads.
    pub async fn missing_months(
        &self,
        now: TimestampMs,
        ahead: u8,
    ) -> Result<BTreeMap<TableNumber, Vec<Month>>, StoreError> {
        let first = Month::of(now)?;
        let mut lacking = BTreeMap::new();
        for shard in self.layout().shards() {
            let mut session = self.session(shard).await?;
            let tables = months_of_tables(self, shard, &mut session).await?;
            for number in self.layout().tables_of(shard) {
                let months = missing(tables.get(&Table::ChatMsg.name(number)), first, ahead);
                if !months.is_empty() {
                    lacking.insert(number, months);
                }
            }
        }
        Ok(lacking)
    }

    /// Every month of every `chat_msg_<n>`, with its size.
    ///
    /// # Errors
    /// As all reads.
    pub async fn list_months(
        &self,
    ) -> Result<BTreeMap<TableNumber, BTreeMap<Month, MonthSize>>, StoreError> {
        let mut all = BTreeMap::new();
        for shard in self.layout().shards() {
            let mut session = self.session(shard).await?;
            let mut tables = months_of_tables(self, shard, &mut session).await?;
            for n in self.layout().tables_of(shard) {
                if let Some(months) = tables.remove(&Table::ChatMsg.name(n)) {
                    all.insert(n, months);
                }
            }
        }
        Ok(all)
    }
}

/// Which of the months up to `ahead` after `first` a table does not have; all, where there is no table.
fn missing(present: Option<&TableMonths>, first: Month, ahead: u8) -> Vec<Month> {
    let is_missing = |month: &Month| present.is_none_or(|present| !present.contains_key(month));
    first.and_ahead(ahead).filter(is_missing).collect()
}

pub(super) async fn add_missing(
    store: &MessageStore,
    shard: Shard,
    session: &mut Session,
    first: Month,
    ahead: u8,
) -> Result<usize, StoreError> {
    let mut added = 0;
    let tables = months_of_tables(store, shard, session).await?;
    for number in store.layout().tables_of(shard) {
        let Some(present) = tables.get(&Table::ChatMsg.name(number)) else {
            continue;
        };
        let table = store.names().table(Table::ChatMsg, number);
        let newest = present.keys().next_back().copied();
        let behind = lacking(newest, first, ahead);
        add_behind(session, &table, &behind).await?;
        let between = missing(Some(present), first, ahead);
        added += behind.len() + split_off(session, &table, present, between).await?;
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

/// Adds the months behind its newest one that a shadow lacks, up to `last` and to what the live table has.
pub(crate) async fn extend_shadow(
    store: &MessageStore,
    n: TableNumber,
    session: &mut Session,
    last: Month,
) -> Result<(), StoreError> {
    let months = months_of_tables(store, store.layout().shard_of(n), session).await?;
    let newest = |table: &str| months.get(table)?.keys().next_back().copied();
    let last = newest(&Table::ChatMsg.name(n)).map_or(last, |live| live.max(last));
    let shadow = Table::ChatMsg.shadow(n);
    let Some(newest) = newest(&shadow) else {
        return Ok(());
    };
    let table = store.names().within(n, &shadow);
    add_behind(session, &table, &lacking(Some(newest), last, 0)).await
}

async fn add_behind(
    session: &mut Session,
    table: &str,
    months: &[Month],
) -> Result<(), StoreError> {
    if months.is_empty() {
        return Ok(());
    }
    let clauses: Vec<String> = months.iter().map(|month| month.partition()).collect();
    let clauses = clauses.join(", ");
    session
        .execute(format!("ALTER TABLE {table} ADD PARTITION ({clauses})"))
        .await?;
    Ok(())
}

/// The months of a table.
pub(super) type TableMonths = BTreeMap<Month, MonthSize>;

/// The months of every table in a database that has months, by its name.
pub(super) async fn months_of_tables(
    store: &MessageStore,
    shard: Shard,
    session: &mut Session,
) -> Result<BTreeMap<String, TableMonths>, StoreError> {
    let database = Arguments::default().with(store.names().database(shard));
    let sql = include_str!("../../sql/schema/list_months.sql").to_owned();
    let mut tables: BTreeMap<String, TableMonths> = BTreeMap::new();
    for row in session.fetch(sql, database.finish()?).await? {
        let (table, month): (String, String) = (row.try_get("table_name")?, row.try_get("month")?);
        let size = MonthSize {
            rows: row.try_get::<Option<i64>, _>("rows_about")?.unwrap_or(0),
            bytes: row.try_get::<Option<i64>, _>("bytes")?.unwrap_or(0),
        };
        let months = tables.entry(table).or_default();
        months.insert(month.parse()?, size);
    }
    Ok(tables)
}

/// Splits the months that lie between others, or before all, off the month behind each: that one holds no row of theirs, since
/// every row names its month. Months behind the newest are not made here.
pub(super) async fn split_off(
    session: &mut Session,
    table: &str,
    present: &TableMonths,
    wanted: impl IntoIterator<Item = Month>,
) -> Result<usize, StoreError> {
    let mut present: BTreeSet<Month> = present.keys().copied().collect();
    let mut added = 0;
    for month in wanted {
        let Some(behind) = present.range(month..).next().copied() else {
            continue;
        };
        if behind == month {
            continue;
        }
        let (month_clause, behind_clause) = (month.partition(), behind.partition());
        let sql = format!(
            "ALTER TABLE {table} REORGANIZE PARTITION {} INTO ({month_clause}, {behind_clause})",
            behind.name()
        );
        session
            .execute(sql)
            .await
            .map_err(|error| error.of(table))?;
        tracing::info!(table, %month, "a month was made between others");
        present.insert(month);
        added += 1;
    }
    Ok(added)
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
