//! `LOAD DATA INFILE` into tables like ours.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use system_tests::TestEnv;
use time::{OffsetDateTime, format_description};

use crate::load::traffic::Traffic;

const ROWS_OF_FILE: usize = 5_000;
/// As many sessions as the machine has cores.
const SESSIONS: usize = 2;
const SERVER: &str = "mariadb";
const COLUMNS: &str = "id, srcid, destid, mid, msg, ts, hashvalue, client_msg_id, n";

/// The last numbers of rows in tables.
#[derive(Default)]
pub(crate) struct Numbers {
    /// The number of rows of each table.
    rows: usize,
    /// The last mid of each conversation, by its users.
    mids: HashMap<(i64, i64), i64>,
}

/// Files of rows, for tables of a database of their own.
pub(crate) struct Files {
    directory: PathBuf,
    /// The files, each with the number of its table.
    files: Vec<(usize, PathBuf)>,
    pub(crate) rows: u64,
}

impl Files {
    /// Writes files of `rows` rows for `tables` tables, continuing the numbers.
    ///
    /// # Errors
    /// If the writer fails.
    pub(crate) fn write(
        env: &TestEnv,
        traffic: &Traffic,
        rows: u64,
        tables: usize,
        numbers: &mut Numbers,
    ) -> Result<Self> {
        let directory = env.log_file("rows").with_extension("d");
        fs::create_dir_all(&directory)?;
        let mut written = Self {
            directory,
            files: Vec::new(),
            rows: 0,
        };
        let per_table = rows as usize / tables;
        let format = format_description::parse_borrowed::<2>(
            "[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:3]",
        )?;
        let now = OffsetDateTime::now_utc().format(&format)?;
        let mut open: Vec<Option<BufWriter<File>>> = (0..tables).map(|_| None).collect();
        let mut ids = vec![0; tables];
        while written.rows < (per_table * tables) as u64 {
            let message = traffic.next_message();
            let table = message.partition()?.index();
            if ids[table] == per_table {
                continue;
            }
            if ids[table].is_multiple_of(ROWS_OF_FILE) {
                open[table] = Some(written.next_file(table, ids[table])?);
            }
            let pair = (
                message.srcid.min(message.destid),
                message.srcid.max(message.destid),
            );
            let mid = numbers.mids.entry(pair).or_default();
            *mid += 1;
            let file = open[table].as_mut().context("a table without a file")?;
            message.write_row(file, numbers.rows + ids[table], *mid, &now, table)?;
            ids[table] += 1;
            written.rows += 1;
        }
        for file in open.iter_mut().flatten() {
            file.flush()?;
        }
        numbers.rows += per_table;
        Ok(written)
    }

    fn next_file(&mut self, table: usize, from: usize) -> Result<BufWriter<File>> {
        let path = self.directory.join(format!("{table}-{from}.tsv"));
        let file = File::create(&path)?;
        self.files.push((table, path));
        Ok(BufWriter::new(file))
    }

    /// Loads all files, in several sessions.
    ///
    /// # Errors
    /// If the server refuses.
    pub(crate) async fn load(&self, env: &TestEnv, database: &str) -> Result<()> {
        let sessions = (0..SESSIONS).map(|session| {
            let own = self
                .files
                .iter()
                .filter(|(table, _)| table % SESSIONS == session);
            let statements: String = own
                .map(|(table, path)| statement(database, *table, path))
                .collect();
            async move { env.execute_sql(SERVER, &statements).await }
        });
        try_join_all(sessions).await?;
        Ok(())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // If this fails, the files go with the environment's directory.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn statement(database: &str, table: usize, path: &Path) -> String {
    let path = path.display();
    format!(
        "LOAD DATA INFILE '{path}' INTO TABLE {database}.chat_msg_{table} CHARACTER SET utf8mb4 ({COLUMNS});\n"
    )
}

/// Creates a database with empty tables like those of `like`.
///
/// # Errors
/// If the server refuses.
pub(crate) async fn make_tables(
    env: &TestEnv,
    database: &str,
    like: &str,
    tables: usize,
) -> Result<()> {
    let each = |n| format!("CREATE TABLE {database}.chat_msg_{n} LIKE {like}.chat_msg_{n};\n");
    let tables: String = (0..tables).map(each).collect();
    env.execute_sql(SERVER, &format!("CREATE DATABASE {database};\n{tables}"))
        .await
}

/// Empties the tables of messages of a database.
///
/// # Errors
/// If the server refuses.
pub(crate) async fn empty(env: &TestEnv, database: &str, tables: usize) -> Result<()> {
    let each = |n| format!("TRUNCATE TABLE {database}.chat_msg_{n};\n");
    let statements: String = (0..tables).map(each).collect();
    env.execute_sql(SERVER, &statements).await
}
