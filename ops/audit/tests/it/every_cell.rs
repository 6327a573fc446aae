//! Breaks each cell of every table by hand, and adds an extra row to each table; the audit finds it, or docs/PROMISES.md says why not.

use std::collections::BTreeSet;

use audit::{Area, Kind};
use sqlx::{AssertSqlSafe, MySqlConnection, Row as _};

use crate::{groups::add_groups, test_env::TestEnv};

/// What the audit does not compare: `table.column`, or a table. The list in docs/PROMISES.md is the same, with the reasons.
const NOT_COMPARED: [&str; 4] = [
    "device",
    "read_chat_mid.id",
    "read_chat_mid.ts",
    "schema_version",
];

/// How a copied row becomes an extra one. `unresolved_read` has no row to copy, and its own test.
const STRAYS: [(&str, &str); 12] = [
    ("chat_msg", "id = id + 1000000"),
    ("contact", "peer = peer + 6400"),
    ("group", "gid = gid + 6400"),
    ("group_member", "uid = uid + 6400"),
    ("group_msg", "id = id + 1000000"),
    ("hidden", "mid = mid + 1000000"),
    ("membership", "gid = gid + 6400"),
    ("msg_change", "chg = chg + 1000000"),
    ("read_chat_mid", "id = id + 1000000, uid = uid + 6400"),
    ("resume_offset", "partition_no = partition_no + 128"),
    ("retention", "what = 'other'"),
    ("user", "uid = uid + 6400"),
];

/// A table of one database that has rows, and its columns.
struct Table {
    /// The name without its number.
    stem: String,
    name: String,
    columns: Vec<Column>,
}

struct Column {
    name: String,
    kind: String,
    is_nullable: bool,
}

impl Column {
    /// Values other than the present one.
    fn others(&self) -> Vec<String> {
        let Self { name, kind, .. } = self;
        let mut others = match kind.as_str() {
            "varchar" | "text" | "mediumtext" => vec![
                format!("CONCAT(COALESCE(`{name}`, ''), 'x')"),
                // The collation ignores a trailing space.
                format!("CONCAT(COALESCE(`{name}`, ''), ' ')"),
            ],
            "datetime" => vec![format!(
                "COALESCE(`{name}`, '2026-01-01') + INTERVAL 1 SECOND"
            )],
            "date" => vec![
                format!("`{name}` + INTERVAL 1 MONTH"),
                format!("`{name}` + INTERVAL 1 DAY"),
            ],
            "tinyint" if name == "partition_no" => vec![format!("`{name}` + 64")],
            "tinyint" => vec![format!("`{name}` + 1")],
            // A key that no other row has.
            "int" | "bigint" => vec![format!("COALESCE(`{name}`, 0) + 7000")],
            other => panic!("{name} is of type {other}, which this test does not know"),
        };
        if self.is_nullable {
            others.push(format!("IF(`{name}` IS NULL, {}, NULL)", others[0]));
        }
        others
    }
}

struct Tables {
    connection: MySqlConnection,
    prefix: String,
}

impl Tables {
    async fn of(env: &TestEnv) -> Self {
        Self {
            connection: env.connect().await,
            prefix: env.database_prefix.clone(),
        }
    }

    async fn run(&mut self, sql: &str) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))
            .execute(&mut self.connection)
            .await
            .map(drop)
    }

    /// One table of each kind; of those that exist 64 times, the first with rows.
    async fn with_rows(&mut self) -> Vec<Table> {
        let sql = "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES \
                   WHERE TABLE_SCHEMA LIKE CONCAT(REPLACE(?, '_', '\\\\_'), '_') ORDER BY 1, 2";
        let rows = sqlx::query(sql)
            .bind(self.prefix.clone())
            .fetch_all(&mut self.connection)
            .await
            .unwrap();
        let (mut seen, mut tables) = (BTreeSet::new(), Vec::new());
        for row in rows {
            let (database, table): (String, String) = (row.get(0), row.get(1));
            let stem = table.trim_end_matches(|c: char| c.is_ascii_digit());
            let stem = stem.trim_end_matches('_').to_owned();
            let name = format!("{database}.{table}");
            if !seen.contains(&stem) && self.has_rows(&name).await {
                seen.insert(stem.clone());
                let columns = self.columns(&database, &table).await;
                tables.push(Table {
                    stem,
                    name,
                    columns,
                });
            }
        }
        tables
    }

    async fn has_rows(&mut self, name: &str) -> bool {
        let sql = format!("SELECT EXISTS (SELECT 1 FROM {name})");
        let row = sqlx::query(AssertSqlSafe(sql))
            .fetch_one(&mut self.connection)
            .await
            .unwrap();
        row.get::<i64, _>(0) == 1
    }

    async fn columns(&mut self, database: &str, table: &str) -> Vec<Column> {
        let sql = "SELECT COLUMN_NAME, DATA_TYPE, IS_NULLABLE FROM information_schema.COLUMNS \
                   WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND EXTRA NOT LIKE '%STORED GENERATED%' ORDER BY ORDINAL_POSITION";
        let rows = sqlx::query(sql)
            .bind(database.to_owned())
            .bind(table.to_owned())
            .fetch_all(&mut self.connection)
            .await
            .unwrap();
        rows.iter()
            .map(|row| Column {
                name: row.get(0),
                kind: row.get(1),
                is_nullable: row.get::<String, _>(2) == "YES",
            })
            .collect()
    }

    /// Where the rows of a table are kept: in a separate database.
    fn kept(&self, table: &Table) -> String {
        format!("{}kept.{}", self.prefix, table.stem)
    }

    async fn keep(&mut self, table: &Table) {
        let (database, kept, name) = (
            format!("{}kept", self.prefix),
            self.kept(table),
            &table.name,
        );
        let sql = format!(
            "CREATE DATABASE IF NOT EXISTS {database} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin; \
             CREATE TABLE `{database}`.`{}` AS SELECT * FROM {name}",
            table.stem
        );
        self.run(&sql)
            .await
            .unwrap_or_else(|error| panic!("{kept}: {error}"));
    }

    async fn restore(&mut self, table: &Table) {
        let (kept, name) = (self.kept(table), &table.name);
        // Generated columns take no value; IGNORE silences their errors.
        let sql = format!("DELETE FROM {name}; INSERT IGNORE INTO {name} SELECT * FROM {kept}");
        self.run(&sql).await.unwrap();
    }

    async fn forget(&mut self) {
        let sql = format!("DROP DATABASE {}kept", self.prefix);
        self.run(&sql).await.unwrap();
    }
}

async fn with_everything() -> TestEnv {
    let env = add_groups(TestEnv::with_changes().await).await;
    // The state as if earlier months had been dropped.
    for database in 0..2 {
        let sql = format!(
            "INSERT INTO {{p}}{database}.retention VALUES ('chat_msg', DATE_FORMAT(UTC_TIMESTAMP(), '%Y-%m-01'))"
        );
        env.sql(&sql).await;
    }
    env.assert_sound().await;
    env
}

/// One change that breaks a table.
struct Harm {
    cell: String,
    sql: String,
}

impl Table {
    fn harms(&self) -> Vec<Harm> {
        let Self {
            stem,
            name,
            columns,
        } = self;
        let first = &columns[0].name;
        let of_column = |column: &Column| {
            let others = column.others().into_iter();
            let column = column.name.clone();
            others.map(move |other| Harm {
                cell: format!("{stem}.{column}"),
                sql: format!("UPDATE {name} SET `{column}` = {other} ORDER BY `{first}` LIMIT 1"),
            })
        };
        columns.iter().flat_map(of_column).collect()
    }

    /// The area in which the audit reports a difference in this table.
    fn area(&self) -> Area {
        match self.stem.as_str() {
            "chat_msg" => Area::Messages,
            "contact" => Area::Contacts,
            "group" => Area::Groups,
            "group_member" => Area::GroupMembers,
            "group_msg" => Area::GroupMessages,
            "hidden" => Area::Hidden,
            "membership" => Area::Memberships,
            "msg_change" => Area::Changes,
            "read_chat_mid" => Area::ReadPositions,
            "resume_offset" => Area::ResumeOffsets,
            "retention" => Area::Retention,
            "user" => Area::Profiles,
            other => panic!("{other} is no table that this test knows"),
        }
    }
}

impl Tables {
    /// Whether the table was broken: not every column takes every value.
    async fn harm(&mut self, harm: &Harm) -> bool {
        let outcome = self.run(&harm.sql).await;
        if let Err(error) = &outcome {
            assert!(error.as_database_error().is_some(), "{}: {error}", harm.sql);
        }
        outcome.is_ok()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_cell_that_is_compared_is_found_where_it_is_another() {
    let env = with_everything().await;
    let mut sql = Tables::of(&env).await;
    let mut tables = sql.with_rows().await;
    tables.retain(|table| !NOT_COMPARED.contains(&table.stem.as_str()));
    for table in &tables {
        sql.keep(table).await;
    }
    let mut found = BTreeSet::new();
    // These two tables decide how much of the others is compared.
    let is_alone = |table: &&Table| ["resume_offset", "retention"].contains(&&*table.stem);
    let (alone, others): (Vec<&Table>, Vec<&Table>) = tables.iter().partition(is_alone);
    for some in [&alone[..1], &alone[1..], &others] {
        harm_each_cell(&env, &mut sql, some, &mut found).await;
    }
    for table in &tables {
        for column in &table.columns {
            let cell = format!("{}.{}", table.stem, column.name);
            assert!(found.contains(&cell), "{cell} takes no other value");
        }
    }
    sql.forget().await;
    env.assert_sound().await;
}

/// Breaks one cell in each of these tables at a time.
async fn harm_each_cell(
    env: &TestEnv,
    sql: &mut Tables,
    tables: &[&Table],
    found: &mut BTreeSet<String>,
) {
    let mut left: Vec<_> = tables
        .iter()
        .map(|table| (*table, table.harms().into_iter()))
        .collect();
    while !left.is_empty() {
        let mut broken = Vec::new();
        for (table, harms) in &mut left {
            for harm in harms.by_ref() {
                if sql.harm(&harm).await {
                    broken.push((*table, harm));
                    break;
                }
            }
        }
        let report = env.audit_for_a_moment().await;
        for (table, harm) in &broken {
            let differences = report.check(table.area()).unwrap().differences();
            let is_compared = !NOT_COMPARED.contains(&&*harm.cell);
            assert_eq!(differences > 0, is_compared, "{}: {report}", harm.sql);
            found.insert(harm.cell.clone());
            sql.restore(table).await;
        }
        left.retain(|(_, harms)| harms.len() > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_too_many_is_found_in_each_table() {
    let env = with_everything().await;
    let mut sql = Tables::of(&env).await;
    let mut tables = sql.with_rows().await;
    tables.retain(|table| !NOT_COMPARED.contains(&table.stem.as_str()));
    let stems: Vec<&str> = tables.iter().map(|table| table.stem.as_str()).collect();
    let mut with_strays = STRAYS.map(|(stem, _)| stem);
    with_strays.sort_unstable();
    let mut sorted = stems.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, with_strays);
    for table in &tables {
        let (_, change) = STRAYS.iter().find(|(stem, _)| *stem == table.stem).unwrap();
        let (name, first) = (&table.name, &table.columns[0].name);
        let one = format!("{}one", env.database_prefix);
        let insert = format!(
            "CREATE DATABASE {one} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin; \
             CREATE TABLE {one}.row AS SELECT * FROM {name} ORDER BY `{first}` LIMIT 1; \
             UPDATE {one}.row SET {change}; INSERT IGNORE INTO {name} SELECT * FROM {one}.row; DROP DATABASE {one}"
        );
        sql.run(&insert).await.unwrap();
    }
    let report = env.audit_for_a_moment().await;
    for table in &tables {
        let check = report.check(table.area()).unwrap();
        assert_eq!(check.extra + check.different, 1, "{}: {report}", table.stem);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_keeps_counts_away_and_that_no_read_position_needs_is_found() {
    let env = TestEnv::with_story().await;
    // 1000 has read mid 4 of 1001 on mobile, with its ordinal; their partition is 17.
    for (row, what) in [
        (
            "'contacts', 1000, 1001, 'mobile', 4, 17, 0",
            "no read position waits",
        ),
        (
            "'contacts', 1000, 1001, 'mobile', 5, 17, 1000000",
            "no read position waits",
        ),
        (
            "'contacts', 1000, 5, 'pc', 1, 45, 1000000",
            "no read position waits",
        ),
        ("'contacts', 1000, 1001, 'tablet', 4, 17, 0", "device is"),
        (
            "'contacts', 1000, 1001, 'pc', 4, 18, 0",
            "partition_no is 18, 17 is right",
        ),
        ("'contacts', 1000, 1001, 'pc', -4, 17, 0", "mid is"),
        ("'contacts', -1, 1001, 'pc', 4, 17, 0", "uid is"),
        ("'contacts', 1, 0, 'pc', 4, 17, 0", "peer is"),
        ("'contacts', 7, 40, 'pc', 1, 47, 0", "in another database"),
        ("'contact', 1000, 1001, 'pc', 4, 17, 0", "sink is"),
        ("'contacts ', 1000, 1001, 'pc', 4, 17, 0", "sink is"),
    ] {
        env.sql(&format!(
            "INSERT INTO {{p}}1.unresolved_read VALUES ({row})"
        ))
        .await;
        env.assert_finds(Area::UnresolvedReads, Kind::Extra, what)
            .await;
        env.sql("DELETE FROM {p}1.unresolved_read").await;
    }
    // A position that waits for messages up to an offset that no projection has reached.
    env.sql("UPDATE {p}1.contact_40 SET mobile_read_n = NULL WHERE peer = 1001")
        .await;
    env.sql("INSERT INTO {p}1.unresolved_read VALUES ('contacts', 1000, 1001, 'mobile', 4, 17, 1000000)")
        .await;
    let report = env.audit().await;
    let check = report.check(Area::UnresolvedReads).unwrap();
    assert!(
        check.examples[0].what.contains("messages_offset"),
        "{report}"
    );
}

#[test]
fn what_is_not_compared_is_in_the_promises() {
    let promises = include_str!("../../../../docs/PROMISES.md");
    let (_, section) = promises
        .split_once("## What the audit does not compare\n")
        .unwrap();
    let section = section.split("\n## ").next().unwrap();
    let named: Vec<String> = section
        .lines()
        .filter_map(|line| line.strip_prefix("- `")?.split_once("`:"))
        .map(|(cell, _)| cell.replace("_<n>", ""))
        .collect();
    assert_eq!(named, NOT_COMPARED);
}
