//! The janitor adds the months of every `chat_msg_<n>` and `group_msg_<n>` ahead of time; a writer adds those that its rows need. There is no
//! catch-all partition, which would have to be split while in use. A range takes earlier rows, too, but a writer names the month of every row, and
//! the server refuses a row that would go elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use schemas::{TableNumber, TimestampMs};
use sqlx::Row as _;

use super::{Month, credible_kept_from, kept_from, lock::SchemaLock};
use crate::{
    MessageStore, Shard, StoreError, arguments::Arguments, names::Table, session::Session,
};

/// One month of tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MonthSize {
    /// How many tables have it.
    pub tables: u64,
    /// How many rows, by the server's estimate.
    pub rows: i64,
    /// How many bytes rows and indexes take.
    pub bytes: i64,
}

impl MonthSize {
    /// Adds another size of the same month.
    pub fn add(&mut self, other: Self) {
        self.tables += other.tables;
        self.rows += other.rows;
        self.bytes += other.bytes;
    }
}

impl MessageStore {
    /// Adds the months that are missing, up to `ahead` months after that of `now`. Returns how many were added over all tables.
    ///
    /// # Errors
    /// Transient if a table is in use for too long.
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

    /// The months up to `ahead` after that of `now` that are missing, by the number of their tables.
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
                let present = Table::BY_MONTH.map(|kind| tables.get(&kind.name(number)));
                let is_missing = |month: &Month| {
                    let mut present = present.iter();
                    present.any(|months| months.is_none_or(|months| !months.contains_key(month)))
                };
                let months: Vec<Month> = first.and_ahead(ahead).filter(is_missing).collect();
                if !months.is_empty() {
                    lacking.insert(number, months);
                }
            }
        }
        Ok(lacking)
    }

    /// Every month of `chat_msg_<n>` and `group_msg_<n>`, by n, with the size of both.
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
                for kind in Table::BY_MONTH {
                    for (month, size) in tables.remove(&kind.name(n)).unwrap_or_default() {
                        let months: &mut TableMonths = all.entry(n).or_default();
                        months.entry(month).or_default().add(size);
                    }
                }
            }
        }
        Ok(all)
    }
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
        for kind in Table::BY_MONTH {
            let Some(present) = tables.get(&kind.name(number)) else {
                continue;
            };
            let table = store.names().table(kind, number);
            let last = first.and_ahead(ahead).last().unwrap_or(first);
            added += Plan::new(present, first.and_ahead(ahead), last)
                .execute(session, &table)
                .await?;
        }
    }
    Ok(added)
}

/// Adds the months after a shadow's newest one, up to `last` or, if that is later, the live table's newest month.
pub(crate) async fn extend_shadow(
    store: &MessageStore,
    kind: Table,
    n: TableNumber,
    session: &mut Session,
    last: Month,
) -> Result<(), StoreError> {
    let months = months_of_tables(store, store.layout().shard_of(n), session).await?;
    let newest = |table: &str| months.get(table)?.keys().next_back().copied();
    let last = newest(&kind.name(n)).map_or(last, |live| live.max(last));
    let shadow = kind.shadow(n);
    if let Some(present) = months.get(&shadow) {
        let table = store.names().within(n, &shadow);
        Plan::new(present, [], last)
            .execute(session, &table)
            .await?;
    }
    Ok(())
}

/// The months to add to a table.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    /// Months to split off, each with the month after it. The later month's partition holds no rows of the earlier month, since every row names its
    /// month.
    splits: Vec<(Month, Month)>,
    /// Months to append.
    appended: Vec<Month>,
}

/// The most months that are appended in a row. A clock that is decades ahead needs one month, not a file for each month in between.
const MAX_APPENDED: usize = 24;

impl Plan {
    /// The plan has the `wanted` months (ascending) before the newest one, and all months after the newest one up to `last`: without a gap, so that
    /// none of them has to be split off later. If `last` is too far away, it has only the wanted ones of these.
    fn new(present: &TableMonths, wanted: impl IntoIterator<Item = Month>, last: Month) -> Self {
        let newest = present.keys().next_back().copied();
        let (before, behind): (Vec<Month>, Vec<Month>) =
            wanted.into_iter().partition(|month| Some(*month) <= newest);
        let split = |month: Month| {
            let (following, _) = present.range(month..).next()?;
            (*following != month).then_some((month, *following))
        };
        let in_a_row = std::iter::successors(newest.map(Month::next), |month| Some(month.next()));
        let in_a_row = in_a_row.take_while(|month| *month <= last);
        let in_a_row: Vec<Month> = in_a_row.take(MAX_APPENDED + 1).collect();
        let is_far = in_a_row.len() > MAX_APPENDED;
        Self {
            splits: before.into_iter().filter_map(split).collect(),
            appended: if is_far { behind } else { in_a_row },
        }
    }

    /// Returns how many months were added.
    async fn execute(&self, session: &mut Session, table: &str) -> Result<usize, StoreError> {
        if !self.appended.is_empty() {
            let clauses: Vec<String> = self.appended.iter().map(|one| one.partition()).collect();
            let clauses = clauses.join(", ");
            session
                .execute(format!("ALTER TABLE {table} ADD PARTITION ({clauses})"))
                .await?;
        }
        for (month, behind) in &self.splits {
            let sql = format!(
                "ALTER TABLE {table} REORGANIZE PARTITION {} INTO ({}, {})",
                behind.name(),
                month.partition(),
                behind.partition()
            );
            session
                .execute(sql)
                .await
                .map_err(|error| error.of(table))?;
            tracing::info!(table, %month, "a month was made between others");
        }
        Ok(self.appended.len() + self.splits.len())
    }
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
            tables: 1,
            rows: row.try_get::<Option<i64>, _>("rows_about")?.unwrap_or(0),
            bytes: row.try_get::<Option<i64>, _>("bytes")?.unwrap_or(0),
        };
        let months = tables.entry(table).or_default();
        months.insert(month.parse()?, size);
    }
    Ok(tables)
}

/// Creates the requested months that are missing: the log may be older than the tables, be read again, or have the time of a broker whose clock is ahead.
/// Returns whether the write may be tried again at once: a month was created, here or by another writer, or has been dropped for good.
pub(crate) async fn create_requested_months(
    store: &MessageStore,
    shard: Shard,
    requested: &BTreeMap<TableNumber, BTreeSet<Month>>,
) -> Result<bool, StoreError> {
    let newest = requested.values().flatten().max().copied();
    // Called before the lock is held, since the call may ask every database.
    let credible = credible_kept_from(store, shard, newest).await?;
    let mut lock = SchemaLock::take(store, shard).await?;
    let before = store.known_kept_from(shard);
    let kept_from = kept_from(store, shard, &mut lock.session).await?;
    if kept_from != credible {
        // Months were dropped just now. The write fails with its transient error, and is repeated later.
        lock.release().await?;
        return Ok(false);
    }
    store.learn_kept_from(shard, kept_from);
    let mut changed = kept_from > before;
    let tables = months_of_tables(store, shard, &mut lock.session).await?;
    let of_both = |(n, months)| Table::BY_MONTH.map(|kind| (n, kind, months));
    for (n, kind, months) in requested.iter().flat_map(of_both) {
        let (database, table) = store.names().split(kind, *n);
        let Some(present) = tables.get(&table) else {
            continue;
        };
        let kept = months
            .iter()
            .copied()
            .filter(|month| Some(*month) >= kept_from);
        // Another writer may have created the month just now.
        changed |= kept.clone().any(|month| present.contains_key(&month));
        let table = format!("{database}.{table}");
        let last = kept.clone().max().unwrap_or(Month::FIRST);
        let plan = Plan::new(present, kept, last);
        changed |= plan.execute(&mut lock.session, &table).await? > 0;
    }
    lock.release().await?;
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn month(name: &str) -> Month {
        name.parse().unwrap()
    }

    fn plan<const N: usize>(present: [&str; N], wanted: &[&str], last: &str) -> Plan {
        let size = MonthSize::default();
        let present = present.map(|name| (month(name), size)).into();
        Plan::new(&present, wanted.iter().copied().map(month), month(last))
    }

    #[test]
    fn months_are_appended_without_a_gap() {
        let appended = |newest: &str, last: &str| plan([newest], &[], last).appended;
        assert_eq!(
            appended("p202609", "p202612"),
            ["p202610", "p202611", "p202612"].map(month)
        );
        assert!(appended("p202612", "p202612").is_empty());
        assert!(appended("p203001", "p202612").is_empty());
        assert_eq!(appended("p202610", "p202611"), [month("p202611")]);
        assert_eq!(appended("p202610", "p202810").len(), MAX_APPENDED);
    }

    #[test]
    fn a_month_that_is_far_away_is_appended_alone() {
        let plan = plan(["p202610"], &["p202610", "p210602"], "p210602");
        assert_eq!(plan.appended, [month("p210602")]);
        assert!(plan.splits.is_empty());
    }

    #[test]
    fn months_before_the_newest_are_split_off_the_one_behind() {
        let wanted = ["p202601", "p202608", "p202609", "p202610", "p202612"];
        let Plan { splits, appended } = plan(["p202603", "p202609", "p202611"], &wanted, "p202611");
        let expected = [
            ("p202601", "p202603"),
            ("p202608", "p202609"),
            ("p202610", "p202611"),
        ];
        assert_eq!(
            splits,
            expected.map(|(new, behind)| (month(new), month(behind)))
        );
        assert!(appended.is_empty());
    }
}
