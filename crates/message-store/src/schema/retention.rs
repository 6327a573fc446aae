//! Months that are dropped, and stay dropped: a row of such a month is not written again when the log is read once more.

use schemas::TimestampMs;
use sqlx::Row as _;

use super::{
    Month, SchemaLock,
    months::{TableMonths, months_of_tables},
};
use crate::{
    MessageStore, Shard, StoreError, arguments::Arguments, datetime, names::Table, session::Session,
};

/// A row of `retention`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionRow {
    /// What is kept: [`RetentionRow::MESSAGES`]. There are no others.
    pub what: String,
    /// The first month that is kept.
    pub kept_from: Month,
    /// The day of that month, which is the first.
    pub day: u8,
}

impl RetentionRow {
    /// `what` of the months of `chat_msg_<n>` and `group_msg_<n>`, and of the changes to their messages.
    pub const MESSAGES: &'static str = "chat_msg";

    async fn all(
        store: &MessageStore,
        shard: Shard,
        session: &mut Session,
    ) -> Result<Vec<Self>, StoreError> {
        let table = store.names().retention(shard);
        let sql = include_str!("../../sql/read/retention.sql").replace("{table}", &table);
        let rows = session.fetch_text(sql).await?;
        rows.iter()
            .map(|row| {
                Ok(Self {
                    what: row.try_get("what")?,
                    kept_from: row.try_get::<String, _>("month")?.parse()?,
                    day: row.try_get("day")?,
                })
            })
            .collect()
    }
}

/// The first month that is kept in a database; `None` if nothing was ever dropped.
pub(crate) async fn kept_from(
    store: &MessageStore,
    shard: Shard,
    session: &mut Session,
) -> Result<Option<Month>, StoreError> {
    let rows = RetentionRow::all(store, shard, session).await?;
    // Compared here: the collation ignores spaces at the end.
    let of_messages = rows.iter().find(|row| row.what == RetentionRow::MESSAGES);
    Ok(of_messages.map(|row| row.kept_from))
}

/// As [`kept_from`], for callers that leave out or delete older rows. Only months up to that of the newest message are dropped, so a later `kept_from` was
/// not set by a drop, and nothing that is on the log may be lost to it. `newest` is the month of the newest message that the caller knows of.
///
/// # Errors
/// Fatal if `retention` names a month that is later than that of the newest message of all databases.
pub(crate) async fn credible_kept_from(
    store: &MessageStore,
    shard: Shard,
    newest: Option<Month>,
) -> Result<Option<Month>, StoreError> {
    let kept_from = store.kept_from(shard).await?;
    if kept_from <= newest.max(store.known_kept_from(shard)) {
        return Ok(kept_from);
    }
    let newest = newest.max(newest_message(store).await?.map(Month::of).transpose()?);
    match kept_from {
        Some(month) if kept_from > newest => {
            let newest = newest.map_or_else(
                || "no message is stored".to_owned(),
                |newest| format!("the newest message is of {newest}"),
            );
            Err(StoreError::fatal(format!(
                "{}: kept_from of the row '{}' is {month}, but {newest}, and months are dropped up to that of the newest message only: \
                 set kept_from to the first day of the month from which on messages are to be kept, or delete the row",
                store.names().retention(shard),
                RetentionRow::MESSAGES,
            )))
        }
        kept_from => Ok(kept_from),
    }
}

/// The month of [`MessageStore::present`].
async fn present_month(
    store: &MessageStore,
    now: TimestampMs,
) -> Result<Option<Month>, StoreError> {
    store.present(now).await?.map(Month::of).transpose()
}

/// When the newest message of all databases was sent.
async fn newest_message(store: &MessageStore) -> Result<Option<TimestampMs>, StoreError> {
    let mut newest = None;
    for shard in store.layout().shards() {
        let mut session = store.session(shard).await?;
        let tables = store.layout().tables_of(shard);
        let of_both = |n| Table::BY_MONTH.map(|kind| (kind, n));
        for (kind, n) in tables.flat_map(of_both) {
            // The live tables, even for a rebuild, whose own tables are not filled yet.
            let table = store.names().within(n, &kind.name(n));
            let sql = include_str!("../../sql/read/newest_message.sql").replace("{table}", &table);
            let rows = session.fetch(sql, Arguments::default().finish()?).await?;
            if let Some(row) = rows.first() {
                newest = newest.max(Some(datetime::from_column(row.try_get("ts")?)));
            }
        }
    }
    Ok(newest)
}

impl MessageStore {
    /// The time of the newest message of all databases, `now` at most: one wrong clock, the machine's or the log's, makes nothing look older than it
    /// is. `None` without messages.
    ///
    /// # Errors
    /// As all reads.
    pub async fn present(&self, now: TimestampMs) -> Result<Option<TimestampMs>, StoreError> {
        let newest = newest_message(self).await?;
        Ok(newest.map(|ts| ts.min(now)))
    }

    /// All rows of `retention` in a database.
    ///
    /// # Errors
    /// As all reads.
    pub async fn retention(&self, shard: Shard) -> Result<Vec<RetentionRow>, StoreError> {
        let mut session = self.session(shard).await?;
        RetentionRow::all(self, shard, &mut session).await
    }

    /// The first month of messages that a database keeps; `None` if nothing was ever dropped.
    ///
    /// # Errors
    /// As all reads.
    pub async fn kept_from(&self, shard: Shard) -> Result<Option<Month>, StoreError> {
        let mut session = self.session(shard).await?;
        kept_from(self, shard, &mut session).await
    }

    /// Checks that [`MessageStore::drop_months`] may be called.
    ///
    /// # Errors
    /// Fatal if `before` lies after the month of the newest message, or after that of `now`.
    pub async fn expect_past(&self, before: Month, now: TimestampMs) -> Result<(), StoreError> {
        match present_month(self, now).await? {
            Some(present) if before <= present => Ok(()),
            Some(present) => Err(StoreError::fatal(format!(
                "{before} has not begun: {present}, the month of the newest message, is kept at least"
            ))),
            None => Err(StoreError::fatal(
                "there are no messages, so no month is past",
            )),
        }
    }

    /// Drops all months of messages before `before`, for good: a writer that reads the log again does not write them again. Returns how many over all
    /// tables.
    ///
    /// # Errors
    /// As [`MessageStore::expect_past`]; transient if a table is in use for too long.
    pub async fn drop_months(&self, before: Month, now: TimestampMs) -> Result<usize, StoreError> {
        self.expect_past(before, now).await?;
        drop_before(self, before).await
    }

    /// Drops, for good, all months that are more than `kept` months before that of the newest message or, if that is earlier, before that of `now`.
    /// Returns how many over all tables.
    ///
    /// # Errors
    /// Transient if a table is in use for too long.
    pub async fn keep_months(&self, kept: u16, now: TimestampMs) -> Result<usize, StoreError> {
        match present_month(self, now).await? {
            Some(present) => drop_before(self, present.minus(kept)).await,
            None => Ok(0),
        }
    }
}

/// How many changes are deleted at a time: writers wait for the locks of one such statement at most.
const CHANGES_AT_ONCE: u64 = 1000;

impl MessageStore {
    /// Deletes the changes that are older than the months of messages that are kept. Returns how many over all tables.
    ///
    /// # Errors
    /// As all writes; fatal if `retention` names a month later than that of the newest message.
    pub async fn delete_old_changes(&self) -> Result<u64, StoreError> {
        let mut deleted = 0;
        for shard in self.layout().shards() {
            let Some(month) = credible_kept_from(self, shard, None).await? else {
                continue;
            };
            let mut session = self.session(shard).await?;
            let template = include_str!("../../sql/write/delete_old_changes.sql")
                .replace("{month}", &month.to_string())
                .replace("{limit}", &CHANGES_AT_ONCE.to_string());
            for n in self.layout().tables_of(shard) {
                let table = self.names().table(Table::MsgChange, n);
                let sql = template.replace("{table}", &table);
                loop {
                    let gone = session.execute(sql.clone()).await;
                    let gone = gone.map_err(|error| error.of(&table))?;
                    deleted += gone;
                    if gone < CHANGES_AT_ONCE {
                        break;
                    }
                }
            }
        }
        Ok(deleted)
    }
}

async fn drop_before(store: &MessageStore, before: Month) -> Result<usize, StoreError> {
    let mut dropped = 0;
    for shard in store.layout().shards() {
        let mut lock = SchemaLock::take(store, shard).await?;
        dropped += drop_in(store, shard, before, &mut lock.session).await?;
        lock.release().await?;
    }
    Ok(dropped)
}

async fn drop_in(
    store: &MessageStore,
    shard: Shard,
    before: Month,
    session: &mut Session,
) -> Result<usize, StoreError> {
    let tables = months_of_tables(store, shard, session).await?;
    // `retention` first: a writer that does not find such a month must not create it again.
    let keep = include_str!("../../sql/schema/raise_kept_from.sql")
        .replace("{table}", &store.names().retention(shard))
        .replace("{month}", &before.to_string());
    session.execute(keep).await?;
    let mut dropped = 0;
    for n in store.layout().tables_of(shard) {
        let names = Table::BY_MONTH.map(|kind| [kind.name(n), kind.shadow(n)]);
        for name in names.into_iter().flatten() {
            let Some(months) = tables.get(&name) else {
                continue;
            };
            let table = store.names().within(n, &name);
            dropped += drop_of(&table, months, before, session).await?;
        }
    }
    Ok(dropped)
}

async fn drop_of(
    table: &str,
    months: &TableMonths,
    before: Month,
    session: &mut Session,
) -> Result<usize, StoreError> {
    let old: Vec<String> = months.range(..before).map(|(m, _)| m.name()).collect();
    if old.is_empty() {
        return Ok(0);
    }
    if old.len() == months.len() {
        return Err(StoreError::transient(format!(
            "{table} has no month that is kept: the janitor of projector-mysql adds the present one"
        )));
    }
    let names = old.join(", ");
    let sql = format!("ALTER TABLE {table} DROP PARTITION {names}");
    session
        .execute(sql)
        .await
        .map_err(|error| error.of(table))?;
    tracing::info!(table, months = names, "months dropped");
    Ok(old.len())
}
