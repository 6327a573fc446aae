//! Statements of many rows, written out with their values.
//!
//! Prepared statements would need one per table and row count on every connection, and the server's memory for each of
//! their thousands of parameters. So values are literals. That is safe because every session runs with utf8mb4 and
//! `NO_BACKSLASH_ESCAPES` (see `session`): then a quote is the only character that means anything within quotes.

use std::fmt::Write as _;

use schemas::TimestampMs;

use crate::{StoreError, datetime};

/// The most rows in one statement: 1,000 are as fast as LOAD DATA, more gain nothing.
static MAX_ROWS_L: std::sync::LazyLock<usize> = std::sync::LazyLock::new(|| std::env::var("MR").map_or(1000, |v| v.parse().expect("n")));

/// Where a statement ends although it has few rows: well below the smallest `max_allowed_packet` in use (16 MiB).
const MAX_BYTES: usize = 1 << 20;

/// One statement and how many rows it carries.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MultiRow {
    pub(crate) sql: String,
    pub(crate) rows: u64,
}

/// The values of one row, in the order of the columns.
pub(crate) struct Values<'a> {
    sql: &'a mut String,
    first: bool,
}

impl Values<'_> {
    pub(crate) fn int(&mut self, value: i64) -> &mut Self {
        self.separate();
        write!(self.sql, "{value}").expect("a String takes everything");
        self
    }

    pub(crate) fn int_or_null(&mut self, value: Option<i64>) -> &mut Self {
        match value {
            Some(value) => self.int(value),
            None => {
                self.separate();
                self.sql.push_str("NULL");
                self
            }
        }
    }

    pub(crate) fn text(&mut self, value: &str) -> &mut Self {
        self.separate();
        push_quoted(self.sql, value);
        self
    }

    pub(crate) fn datetime(&mut self, ts: TimestampMs) -> Result<&mut Self, StoreError> {
        let at = datetime::to_column(ts)?;
        self.separate();
        write!(
            self.sql,
            "'{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:03}'",
            at.year(),
            u8::from(at.month()),
            at.day(),
            at.hour(),
            at.minute(),
            at.second(),
            at.millisecond()
        )
        .expect("a String takes everything");
        Ok(self)
    }

    fn separate(&mut self) {
        if !self.first {
            self.sql.push(',');
        }
        self.first = false;
    }
}

/// Appends `text` as a string literal.
pub(crate) fn push_quoted(sql: &mut String, text: &str) {
    sql.push('\'');
    for (i, part) in text.split('\'').enumerate() {
        if i > 0 {
            sql.push_str("''");
        }
        sql.push_str(part);
    }
    sql.push('\'');
}

/// `<head> (…),(…) <tail>` for all rows, in as many statements as it takes.
pub(crate) fn multi_row<R>(
    head: &str,
    tail: &str,
    rows: impl IntoIterator<Item = R>,
    mut write_row: impl FnMut(&mut Values<'_>, R) -> Result<(), StoreError>,
) -> Result<Vec<MultiRow>, StoreError> {
    let mut statements = Vec::new();
    let mut open = MultiRow {
        sql: String::new(),
        rows: 0,
    };
    for row in rows {
        open.sql.push_str(if open.rows == 0 { head } else { "," });
        open.sql.push('(');
        let mut values = Values {
            sql: &mut open.sql,
            first: true,
        };
        write_row(&mut values, row)?;
        open.sql.push(')');
        open.rows += 1;
        if open.rows == *MAX_ROWS_L as u64 || open.sql.len() >= MAX_BYTES {
            open.sql.push_str(tail);
            statements.push(std::mem::replace(
                &mut open,
                MultiRow {
                    sql: String::new(),
                    rows: 0,
                },
            ));
        }
    }
    if open.rows > 0 {
        open.sql.push_str(tail);
        statements.push(open);
    }
    Ok(statements)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(rows: impl IntoIterator<Item = i64>) -> Vec<MultiRow> {
        multi_row("INSERT INTO t VALUES ", " END", rows, |values, row| {
            values.int(row).text("it's");
            Ok(())
        })
        .unwrap()
    }

    #[test]
    fn rows_share_a_statement() {
        assert_eq!(
            ints([1, -2]),
            [MultiRow {
                sql: "INSERT INTO t VALUES (1,'it''s'),(-2,'it''s') END".to_owned(),
                rows: 2
            }]
        );
        assert!(ints([]).is_empty());
    }

    #[test]
    fn a_statement_is_bounded_in_rows_and_bytes() {
        let counts = |statements: Vec<MultiRow>| -> Vec<u64> {
            statements.iter().map(|statement| statement.rows).collect()
        };
        assert_eq!(counts(ints(0..2001)), [1000, 1000, 1]);
        let large = "x".repeat(600_000);
        let statements = multi_row("", "", 0..5, |values, _| {
            values.text(&large);
            Ok(())
        })
        .unwrap();
        assert_eq!(counts(statements), [2, 2, 1]);
    }

    #[test]
    fn other_values_have_their_literals() {
        let statements = multi_row("", "", [()], |values, ()| {
            values
                .int_or_null(None)
                .datetime(TimestampMs(1))?
                .text("''\\");
            Ok(())
        })
        .unwrap();
        assert_eq!(
            statements[0].sql,
            r"(NULL,'1970-01-01 00:00:00.001','''''\')"
        );
    }
}
