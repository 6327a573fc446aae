//! The read side: snapshots.

mod changes;
mod contacts;
pub(crate) mod decode;
mod group_heads;
mod groups;
mod messages;
mod moved_groups;
mod profiles;
mod read_mids;
mod resume_offsets;
mod scan;

use std::collections::BTreeMap;

pub use messages::UNREAD_LIMIT;
use schemas::{TableNumber, UserId};
use sqlx::mysql::MySqlRow;

use crate::{
    MessageStore, Shard, StoreError,
    arguments::Arguments,
    names::{Names, Table},
    session::Session,
};

/// A snapshot of one database. Resume offsets and rows that are read through it belong together (PROTOCOL M5): the rows are
/// exactly those of the records below the offsets.
///
/// A snapshot keeps a connection busy and old row versions alive, so it should be dropped soon. After an error it is unusable.
///
/// # Errors
/// The errors of all reads: transient if the server does not answer; fatal if the rows are in another database, or a row has a value that cannot come
/// from the log.
#[derive(Debug)]
pub struct ReadTx {
    session: Session,
    pub(crate) names: Names,
    pub(crate) shard: Shard,
}

/// READ ONLY has an effect: such a snapshot takes no transaction id.
const BEGIN: &str = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; \
    START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY";

impl MessageStore {
    /// Opens a snapshot of one database: everything read through it is as of now.
    ///
    /// # Errors
    /// Transient if the server cannot be reached.
    pub async fn snapshot(&self, shard: Shard) -> Result<ReadTx, StoreError> {
        let mut session = self.session(shard).await?;
        session.execute(BEGIN.to_owned()).await?;
        Ok(ReadTx {
            session,
            names: self.names().clone(),
            shard,
        })
    }
}

impl ReadTx {
    /// The database of the snapshot.
    #[must_use]
    pub fn shard(&self) -> Shard {
        self.shard
    }

    /// The full name of a table of this database.
    pub(crate) fn table(
        &self,
        table: Table,
        number: impl Into<TableNumber>,
    ) -> Result<String, StoreError> {
        let number = number.into();
        if self.names.layout().shard_of(number) == self.shard {
            Ok(self.names.table(table, number))
        } else {
            Err(StoreError::fatal(format!(
                "table {number} is not in database {}",
                self.names.database(self.shard)
            )))
        }
    }

    /// The rows of one statement: `sql` of each table, for the ids to be found there, joined by UNION ALL.
    async fn fetch_of_tables<T>(
        &mut self,
        ids: impl Iterator<Item = (TableNumber, i64)>,
        sql: impl Fn(&Self, TableNumber, &str) -> Result<String, StoreError>,
        decode: impl Fn(&MySqlRow) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut by_table: BTreeMap<TableNumber, Vec<String>> = BTreeMap::new();
        for (number, id) in ids {
            by_table.entry(number).or_default().push(id.to_string());
        }
        let by_table = by_table.into_iter();
        let rows = self
            .fetch_of_each(by_table, |tx, (number, ids)| {
                sql(tx, number, &ids.join(", "))
            })
            .await?;
        rows.iter().map(decode).collect()
    }

    /// The rows of one statement: `sql` of each item, joined by UNION ALL; no rows if there are no items.
    async fn fetch_of_each<T>(
        &mut self,
        each: impl Iterator<Item = T>,
        sql: impl Fn(&Self, T) -> Result<String, StoreError>,
    ) -> Result<Vec<MySqlRow>, StoreError> {
        let selects = each
            .map(|one| sql(self, one))
            .collect::<Result<Vec<String>, StoreError>>()?;
        if selects.is_empty() {
            return Ok(Vec::new());
        }
        self.session.fetch_text(selects.join(" UNION ALL ")).await
    }

    fn contact_table(&self, uid: UserId) -> Result<String, StoreError> {
        self.table(Table::Contact, TableNumber::of_user(uid))
    }

    /// The rows of a prepared statement, in which `{table}` stands for a table.
    pub(crate) async fn fetch<T>(
        &mut self,
        template: &str,
        table: &str,
        arguments: Arguments,
        decode: impl Fn(&MySqlRow) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let sql = template.replace("{table}", table);
        let rows = self.session.fetch(sql, arguments.finish()?).await?;
        rows.iter().map(decode).collect()
    }

    /// As [`Self::fetch`], for a statement that is different every time and therefore not prepared.
    pub(crate) async fn fetch_once<T>(
        &mut self,
        template: &str,
        table: &str,
        decode: impl Fn(&MySqlRow) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let sql = template.replace("{table}", table);
        let rows = self.session.fetch_text(sql).await?;
        rows.iter().map(decode).collect()
    }
}
