//! Compares the projected tables of two stores on the same servers, by statements that run there. Nothing is locked.

use schemas::TableNumber;
use sqlx::{Row as _, mysql::MySqlRow};

use crate::{
    MessageStore, Shard, StoreError, arguments::Arguments, names::Table, session::Session,
};

/// The rows of a table that differ between two stores, or that only one of them has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDifference {
    /// The name of the table, like `contact_17`.
    pub table: String,
    /// How many rows.
    pub count: u64,
    /// The first of them by their keys.
    pub first: Vec<RowDifference>,
}

/// A row that differs between two stores, or that only one of them has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowDifference {
    /// The columns of its key, with their values, like `uid 17, kind 0, peer 18`.
    pub key: String,
    /// How the row differs.
    pub how: HowRowsDiffer,
}

/// How a row differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HowRowsDiffer {
    /// The other store does not have it.
    OnlyHere,
    /// Only the other store has it.
    OnlyThere,
    /// Both have it: the columns that differ, with the value here and there. Of a text there are only the lengths.
    Fields(String),
}

impl MessageStore {
    /// How the projected tables of a database differ from those of `other`, which is on the same servers. At most `limit` rows of each kind are given
    /// per table; all are counted. What is written meanwhile may be compared or not.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn differences(
        &self,
        other: &Self,
        shard: Shard,
        limit: u32,
    ) -> Result<Vec<TableDifference>, StoreError> {
        let mut session = self.session(shard).await?;
        let mut found = Vec::new();
        for table in Table::ALL.into_iter().filter(|table| table.is_projected()) {
            let mut comparison = None;
            for number in self.layout().tables_of(shard) {
                let comparison = match &comparison {
                    Some(known) => known,
                    None => comparison
                        .insert(Comparison::read(self, &mut session, table, number).await?),
                };
                let names = [self, other].map(|store| store.names().table(table, number));
                let (count, first) = comparison.run(&mut session, &names, limit).await?;
                if count > 0 {
                    let table = table.name(number);
                    found.push(TableDifference {
                        table,
                        count,
                        first,
                    });
                }
            }
        }
        Ok(found)
    }
}

/// The parts of the statements that compare two tables of a kind, `a` and `b`.
struct Comparison {
    key: String,
    same_key: String,
    is_missing: String,
    fields: String,
    same_fields: String,
    order: String,
}

struct Column {
    name: String,
    is_text: bool,
    is_key: bool,
}

impl Comparison {
    /// Reads the columns of a table.
    async fn read(
        store: &MessageStore,
        session: &mut Session,
        table: Table,
        number: TableNumber,
    ) -> Result<Self, StoreError> {
        let (database, name) = store.names().split(table, number);
        let (index, left_out) = table.identity();
        let arguments = Arguments::default().with(index).with(database).with(&name);
        let sql = include_str!("../sql/read/columns_of.sql").to_owned();
        let rows = session.fetch(sql, arguments.finish()?).await?;
        let column = |row: &MySqlRow| {
            Ok::<_, StoreError>(Column {
                name: row.try_get("name")?,
                is_text: row.try_get::<i64, _>("is_text")? != 0,
                is_key: row.try_get::<i64, _>("is_key")? != 0,
            })
        };
        let columns: Vec<Column> = rows.iter().map(column).collect::<Result<_, _>>()?;
        let (keys, fields): (Vec<Column>, Vec<Column>) = columns
            .into_iter()
            .filter(|column| !left_out.contains(&column.name.as_str()))
            .partition(|column| column.is_key);
        let Some(first) = keys.first() else {
            return Err(StoreError::fatal(format!("{name} has no key {index}")));
        };
        Ok(Self {
            is_missing: format!("b.{} IS NULL", first.name),
            key: joined(&keys, ", ", |c| format!("CONCAT('{c} ', a.{c})")),
            same_key: joined(&keys, " AND ", |c| format!("a.{c} = b.{c}")),
            order: joined(&keys, ", ", |c| format!("a.{c}")),
            // A table whose columns are all in its key has no other column.
            same_fields: match fields.is_empty() {
                true => "TRUE".to_owned(),
                false => joined(&fields, " AND ", |c| format!("a.{c} <=> b.{c}")),
            },
            fields: match fields.is_empty() {
                true => "NULL".to_owned(),
                false => fields.iter().map(difference).collect::<Vec<_>>().join(", "),
            },
        })
    }

    /// How many rows of the first table differ from those of the second, and the first of them.
    async fn run(
        &self,
        session: &mut Session,
        [table, other]: &[String; 2],
        limit: u32,
    ) -> Result<(u64, Vec<RowDifference>), StoreError> {
        let differ = include_str!("../sql/read/rows_that_differ.sql");
        let differ = session.fetch_text(self.statement(differ, table, other, limit));
        let differ = differ.await?;
        let missing = include_str!("../sql/read/rows_that_are_missing.sql");
        let missing = session.fetch_text(self.statement(missing, table, other, limit));
        let missing = missing.await?;
        let mut found = Vec::new();
        for row in &differ {
            let fields: Option<String> = row.try_get("fields")?;
            found.push(RowDifference {
                key: row.try_get("row_key")?,
                how: fields.map_or(HowRowsDiffer::OnlyHere, HowRowsDiffer::Fields),
            });
        }
        for row in &missing {
            found.push(RowDifference {
                key: row.try_get("row_key")?,
                how: HowRowsDiffer::OnlyThere,
            });
        }
        Ok((total(&differ)? + total(&missing)?, found))
    }

    fn statement(&self, sql: &str, table: &str, other: &str, limit: u32) -> String {
        sql.replace("{table}", table)
            .replace("{other}", other)
            .replace("{key}", &self.key)
            .replace("{same_key}", &self.same_key)
            .replace("{is_missing}", &self.is_missing)
            .replace("{fields}", &self.fields)
            .replace("{same_fields}", &self.same_fields)
            .replace("{order}", &self.order)
            .replace("{limit}", &limit.to_string())
    }
}

fn joined(columns: &[Column], by: &str, part: impl Fn(&str) -> String) -> String {
    let parts: Vec<String> = columns.iter().map(|column| part(&column.name)).collect();
    parts.join(by)
}

/// An expression that names a column with both values if they differ, and is NULL if not. No text that somebody wrote leaves the server.
fn difference(column: &Column) -> String {
    let Column { name, is_text, .. } = column;
    let value = |row| match is_text {
        true => format!("COALESCE(CONCAT(CHAR_LENGTH({row}.{name}), ' characters'), 'NULL')"),
        false => format!("COALESCE({row}.{name}, 'NULL')"),
    };
    format!(
        "IF(a.{name} <=> b.{name}, NULL, CONCAT('{name} ', {}, ' instead of ', {}))",
        value('b'),
        value('a')
    )
}

fn total(rows: &[MySqlRow]) -> Result<u64, StoreError> {
    let Some(row) = rows.first() else {
        return Ok(0);
    };
    Ok(row.try_get::<i64, _>("total")?.cast_unsigned())
}
