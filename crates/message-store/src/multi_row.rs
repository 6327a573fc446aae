//! Statements of many rows.

use sqlx::mysql::MySqlArguments;

use crate::{StoreError, arguments::Arguments};

/// An INSERT or UPDATE of several rows.
pub(crate) struct MultiRow {
    pub(crate) table: String,
    pub(crate) sql: String,
    pub(crate) arguments: MySqlArguments,
    /// Whether the connection keeps the statement prepared.
    pub(crate) kept: bool,
    /// How many rows the server has to count. `None` for upserts, in which a row may count 0 to 2, and for UPDATEs of rows that may be gone.
    pub(crate) rows: Option<u64>,
}

/// How statements of many rows are prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preparation {
    /// A few sizes of statement, which the connection keeps prepared: a quarter less work for the server than preparing
    /// again or than literals. A prepared statement costs the server some 4 KiB a row, for every table and connection;
    /// that is why the sizes are few and small.
    Kept,
    /// Statements as large as possible, prepared once.
    Once,
}

/// Divisors of each other, descending to 1.
const KEPT_SIZES: [usize; 4] = [64, 16, 4, 1];

/// The most rows of a statement that is not kept: more bring no gain, and the protocol allows 65,535 parameters.
const ONCE_SIZE: usize = 1000;

impl Preparation {
    /// The number of rows of the next statement if `left` rows (at least 1) are left.
    fn next(self, left: usize) -> usize {
        match self {
            Self::Kept => KEPT_SIZES
                .into_iter()
                .find(|size| *size <= left)
                .unwrap_or(1),
            Self::Once => left.min(ONCE_SIZE),
        }
    }
}

/// `INSERT INTO <table> (<columns>) VALUES (…),(…) <tail>`. Without a tail all rows have to be inserted.
pub(crate) struct Insert<'a> {
    pub(crate) table: &'a str,
    /// Separated by commas.
    pub(crate) columns: &'a str,
    pub(crate) tail: &'a str,
    pub(crate) sizes: Preparation,
}

impl Insert<'_> {
    /// The statements for all rows; `bind` adds the values of one row, in the order of the columns.
    pub(crate) fn statements<R>(
        &self,
        mut rows: &[R],
        bind: impl Fn(Arguments, &R) -> Result<Arguments, StoreError>,
    ) -> Result<Vec<MultiRow>, StoreError> {
        let mut statements = Vec::new();
        while !rows.is_empty() {
            let (these, rest) = rows.split_at(self.sizes.next(rows.len()));
            rows = rest;
            let mut arguments = Arguments::default();
            for row in these {
                arguments = bind(arguments, row)?;
            }
            statements.push(MultiRow {
                table: self.table.to_owned(),
                sql: self.sql(these.len()),
                arguments: arguments.finish()?,
                kept: self.sizes == Preparation::Kept,
                rows: self.tail.is_empty().then_some(these.len() as u64),
            });
        }
        Ok(statements)
    }

    fn sql(&self, rows: usize) -> String {
        let Self {
            table,
            columns,
            tail,
            ..
        } = self;
        let values = vec!["?"; columns.split(',').count()].join(",");
        let rows = vec![format!("({values})"); rows].join(",");
        format!("INSERT INTO {table} ({columns}) VALUES {rows} {tail}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(sizes: Preparation, rows: usize) -> Vec<MultiRow> {
        let insert = Insert {
            table: "t",
            columns: "a, b",
            tail: "",
            sizes,
        };
        let rows: Vec<i64> = (0..rows as i64).collect();
        insert
            .statements(&rows, |arguments, row| Ok(arguments.with(*row).with("x")))
            .unwrap()
    }

    fn sizes(statements: &[MultiRow]) -> Vec<u64> {
        let rows = statements.iter().map(|statement| statement.rows);
        rows.map(Option::unwrap).collect()
    }

    #[test]
    fn rows_share_a_statement() {
        let statements = insert(Preparation::Once, 2);
        assert_eq!(
            statements[0].sql,
            "INSERT INTO t (a, b) VALUES (?,?),(?,?) "
        );
        assert_eq!(sqlx::Arguments::len(&statements[0].arguments), 4);
        assert!(insert(Preparation::Once, 0).is_empty());
    }

    #[test]
    fn kept_statements_come_in_few_sizes() {
        assert_eq!(
            sizes(&insert(Preparation::Kept, 150)),
            [64, 64, 16, 4, 1, 1]
        );
        assert_eq!(sizes(&insert(Preparation::Kept, 1)), [1]);
        assert_eq!(sizes(&insert(Preparation::Once, 2001)), [1000, 1000, 1]);
    }
}
