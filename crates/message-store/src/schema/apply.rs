use std::fmt;

use schemas::{TableNumber, TimestampMs};
use sqlx::{Row as _, mysql::MySqlArguments};

use super::{
    MONTHS_AHEAD, Month, credible_kept_from,
    lock::SchemaLock,
    migrations::{MIGRATIONS, Migration, SCHEMA_VERSION},
    months, orphans,
};
use crate::{
    MessageStore, Shard, StoreError,
    arguments::Arguments,
    names::{SHADOW, Table},
    session::Session,
};

/// The result of an `apply_schema`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchemaReport {
    /// How many databases there are.
    pub databases: usize,
    /// How many versions were applied, over all databases; 0 if all was up to date.
    pub migrations: usize,
    /// How many months were added to tables that were there before, over all tables.
    pub months: usize,
}

impl SchemaReport {
    /// Whether nothing had to be changed.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        self.migrations == 0 && self.months == 0
    }
}

impl fmt::Display for SchemaReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            databases,
            migrations,
            months,
        } = self;
        if self.is_unchanged() {
            return write!(f, "{databases} databases are up to date");
        }
        write!(
            f,
            "{databases} databases: {migrations} schema versions applied, {months} months added"
        )
    }
}

impl MessageStore {
    /// Creates or brings up to date all databases, tables and months, from the month of `from` on: the time of the oldest message that is to be
    /// stored, which is now in a new system. May run any number of times, also concurrently.
    ///
    /// # Errors
    /// Fatal if a database was made by a newer version of this program, or for another number of databases.
    pub async fn apply_schema(&self, from: TimestampMs) -> Result<SchemaReport, StoreError> {
        let first = Month::of(from)?;
        let mut report = SchemaReport::default();
        for shard in self.shards_of_servers() {
            check_layout(self, shard).await?;
        }
        for shard in self.layout().shards() {
            let mut lock = SchemaLock::take(self, shard).await?;
            report.databases += 1;
            report.migrations += migrate(self, shard, &mut lock.session, first).await?;
            report.months +=
                months::add_missing(self, shard, &mut lock.session, first, MONTHS_AHEAD).await?;
            lock.release().await?;
        }
        Ok(report)
    }
}

/// Refuses tables, on the server of `shard`, that the layout has in another database.
async fn check_layout(store: &MessageStore, shard: Shard) -> Result<(), StoreError> {
    let prefix = store.names().prefix();
    let sql = include_str!("../../sql/schema/list_contact_tables.sql").to_owned();
    let prefixes = Arguments::default().with(prefix).with(prefix);
    let mut session = store.session(shard).await?;
    for row in session.fetch(sql, prefixes.finish()?).await? {
        let (database, table): (String, String) =
            (row.try_get("database_name")?, row.try_get("table_name")?);
        let number = |text: &str, before: &str| text.strip_prefix(before)?.parse::<u8>().ok();
        let table_number = number(&table, "contact_").map(i64::from);
        let table_number = table_number.and_then(|n| TableNumber::try_from(n).ok());
        if let (Some(of), Some(n)) = (number(&database, prefix), table_number)
            && store.layout().shard_of(n).get() != of
        {
            let databases = store.layout().shards().len();
            return Err(StoreError::fatal(format!(
                "mysql.databases is {databases}, and the tables were made with another number: {table} is in {database}. \
                 It cannot be changed once there are tables"
            )));
        }
    }
    Ok(())
}

/// Creates a database if it is missing, without the tables that sinks write: those are being built elsewhere, and a writer must not find them before
/// they are complete.
pub(crate) async fn ensure_database(
    store: &MessageStore,
    shard: Shard,
    session: &mut Session,
) -> Result<(), StoreError> {
    let database = store.names().database(shard);
    let present = create_database(session, &database).await?;
    if present == MIGRATIONS.len() as u32 {
        return Ok(());
    }
    if present > 0 {
        return Err(StoreError::fatal(format!(
            "database {database} has schema version {present}: `tidemark db apply` brings it up to date"
        )));
    }
    for migration in MIGRATIONS {
        let wanted = |kind: Table, _| !kind.is_projected();
        run(store, shard, session, migration, Month::FIRST, wanted).await?;
        note(session, migration, &database).await?;
    }
    Ok(())
}

/// Creates the table that will replace a live one, or adds to an existing one the months up to [`MONTHS_AHEAD`] after that of `now`. Older months are
/// created when a row needs them.
pub(crate) async fn create_shadow(
    store: &MessageStore,
    kind: Table,
    n: TableNumber,
    session: &mut Session,
    now: TimestampMs,
) -> Result<(), StoreError> {
    let shard = store.layout().shard_of(n);
    let database = store.names().database(shard);
    let kept_from = credible_kept_from(store, shard, None).await?;
    store.learn_kept_from(shard, kept_from);
    let first = Month::of(now)?.max(kept_from.unwrap_or(Month::FIRST));
    let shadow = OneTable {
        kind,
        database: &database,
        number: format!("{n}_{SHADOW}"),
        name: store.names().within(n, &kind.shadow(n)),
    };
    shadow.take_every_step(session, first).await?;
    if Table::BY_MONTH.contains(&kind) {
        let last = first.and_ahead(MONTHS_AHEAD).last().unwrap_or(first);
        months::extend_shadow(store, kind, n, session, last).await?;
    }
    Ok(())
}

/// Creates a database without tables, if it is missing.
pub(crate) async fn create_empty_database(
    session: &mut Session,
    database: &str,
) -> Result<(), StoreError> {
    let sql = format!(
        "CREATE DATABASE IF NOT EXISTS {database} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    );
    session.execute(sql).await.map(drop)
}

/// Creates the database and the table of its versions, if they are missing. Returns the newest version that was applied, 0 for none.
async fn create_database(session: &mut Session, database: &str) -> Result<u32, StoreError> {
    create_empty_database(session, database).await?;
    session
        .execute(fill_database(SCHEMA_VERSION, database))
        .await?;
    let present = present_version(session, database).await?;
    let known = MIGRATIONS.len() as u32;
    if present > known {
        return Err(StoreError::fatal(format!(
            "database {database} has schema version {present}, this program knows {known}: use a newer one"
        )));
    }
    Ok(present)
}

/// Applies the versions that a database lacks. Returns how many those were.
async fn migrate(
    store: &MessageStore,
    shard: Shard,
    session: &mut Session,
    first: Month,
) -> Result<usize, StoreError> {
    let database = store.names().database(shard);
    let present = create_database(session, &database).await?;
    if present == 0 {
        create_tables(store, shard, session, first).await?;
        return Ok(MIGRATIONS.len());
    }
    let pending = MIGRATIONS
        .iter()
        .filter(|migration| migration.version > present);
    let mut applied = 0;
    for migration in pending {
        run(store, shard, session, migration, first, |_, _| true).await?;
        note(session, migration, &database).await?;
        applied += 1;
    }
    Ok(applied)
}

/// Creates all tables of a database that has no version: those of one number by every step, the others as copies of them, since a test or a first
/// start waits mostly for DDL.
async fn create_tables(
    store: &MessageStore,
    shard: Shard,
    session: &mut Session,
    first: Month,
) -> Result<(), StoreError> {
    let database = store.names().database(shard);
    let mut numbers = store.layout().tables_of(shard);
    let model = numbers.next().expect("every database has tables");
    for migration in MIGRATIONS {
        let wanted = |_, n| n == model;
        run(store, shard, session, migration, first, wanted).await?;
    }
    for n in numbers {
        for kind in Table::ALL {
            let table = OneTable::live(store, kind, n, &database);
            let model = store.names().table(kind, model);
            table.make_like(&model, session, first).await?;
        }
    }
    for migration in MIGRATIONS {
        note(session, migration, &database).await?;
    }
    Ok(())
}

async fn note(
    session: &mut Session,
    migration: &Migration,
    database: &str,
) -> Result<(), StoreError> {
    let Migration { version, name, .. } = migration;
    session
        .execute(format!(
            "INSERT INTO {database}.schema_version (version, name) VALUES ({version}, '{name}')"
        ))
        .await?;
    tracing::info!(database, version, name, "schema version applied");
    Ok(())
}

/// Checks that a database has no newer schema than that of the tables that this program builds.
///
/// # Errors
/// Fatal if it has.
pub(crate) async fn expect_no_newer_version(
    session: &mut Session,
    database: &str,
) -> Result<(), StoreError> {
    let present = present_version(session, database).await?;
    let own = MIGRATIONS.last().map_or(0, |last| last.version);
    if present <= own {
        return Ok(());
    }
    Err(StoreError::fatal(format!(
        "{database} has schema version {present}, and this program builds tables of version {own}: \
         run the rebuild with the program whose `db apply` ran last"
    )))
}

async fn present_version(session: &mut Session, database: &str) -> Result<u32, StoreError> {
    let sql = format!(
        "SELECT CAST(COALESCE(MAX(version), 0) AS UNSIGNED) AS version FROM {database}.schema_version"
    );
    let rows = session.fetch(sql, MySqlArguments::default()).await?;
    let version: u64 = rows[0].try_get("version")?;
    u32::try_from(version).map_err(StoreError::fatal)
}

/// Applies a version to a database, and to those of its tables that are `wanted`.
async fn run(
    store: &MessageStore,
    shard: Shard,
    session: &mut Session,
    migration: &Migration,
    first: Month,
    wanted: impl Fn(Table, TableNumber) -> bool,
) -> Result<(), StoreError> {
    let database = store.names().database(shard);
    for sql in migration.once {
        match session.execute(fill_database(sql, &database)).await {
            Err(error) if error.is_altered_already() => {}
            done => drop(done?),
        }
    }
    for n in store.layout().tables_of(shard) {
        let steps = migration.per_table.iter();
        for (kind, sql) in steps.filter(|(kind, _)| wanted(*kind, n)) {
            let table = OneTable::live(store, *kind, n, &database);
            table.execute(session, sql, first).await?;
        }
    }
    Ok(())
}

/// The table that a step of a migration is for.
struct OneTable<'a> {
    kind: Table,
    database: &'a str,
    /// The replacement for `{n}`.
    number: String,
    /// The table's name, with its database.
    name: String,
}

impl<'a> OneTable<'a> {
    fn live(store: &MessageStore, kind: Table, n: TableNumber, database: &'a str) -> Self {
        Self {
            kind,
            database,
            number: n.to_string(),
            name: store.names().table(kind, n),
        }
    }

    /// Creates the table as a copy of an empty table. If the table or its files exist already, an earlier attempt was interrupted, and every step is
    /// taken instead.
    async fn make_like(
        &self,
        model: &str,
        session: &mut Session,
        first: Month,
    ) -> Result<(), StoreError> {
        let sql = format!("CREATE TABLE {} LIKE {model}", self.name);
        match session.execute(sql).await {
            Err(error) if error.table_exists() => self.take_every_step(session, first).await,
            made => made.map(drop),
        }
    }

    async fn take_every_step(&self, session: &mut Session, first: Month) -> Result<(), StoreError> {
        let steps = MIGRATIONS.iter().flat_map(|one| one.per_table);
        for (_, sql) in steps.filter(|(of, _)| *of == self.kind) {
            self.execute(session, sql, first).await?;
        }
        Ok(())
    }

    /// Executes a step. If the step has months, they begin with `first`.
    async fn execute(
        &self,
        session: &mut Session,
        sql: &str,
        first: Month,
    ) -> Result<(), StoreError> {
        let months = first.and_ahead(MONTHS_AHEAD).map(Month::partition);
        let sql = fill_database(sql, self.database)
            .replace("{n}", &self.number)
            .replace("{months}", &months.collect::<Vec<_>>().join(", "));
        if sql.starts_with("ALTER TABLE") {
            return match session.execute(sql).await {
                Err(error) if error.is_altered_already() => Ok(()),
                altered => altered.map(drop).map_err(|error| error.of(&self.name)),
            };
        }
        match self.kind {
            Table::ChatMsg | Table::GroupMsg => {
                orphans::create_table(session, sql, &self.name, first).await
            }
            _ => session.execute(sql).await.map(drop),
        }
    }
}

fn fill_database(sql: &str, database: &str) -> String {
    sql.replace("{database}", database)
}
