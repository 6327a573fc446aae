use std::fmt;

use schemas::TimestampMs;
use sqlx::{Row as _, mysql::MySqlArguments};

use super::{
    MONTHS_AHEAD, Month,
    lock::SchemaLock,
    migrations::{MIGRATIONS, Migration, SCHEMA_VERSION},
    months,
};
use crate::{MessageStore, Shard, StoreError, session::Session};

/// What an `apply_schema` did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchemaReport {
    /// How many databases there are.
    pub databases: usize,
    /// How many versions were applied, over all databases; 0 where all was up to date.
    pub migrations: usize,
    /// How many months were added to tables that were there before, over all tables.
    pub months: usize,
}

impl SchemaReport {
    /// Whether all was as it should be.
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

/// All databases, one after the other.
pub(crate) async fn apply(
    store: &MessageStore,
    from: TimestampMs,
) -> Result<SchemaReport, StoreError> {
    let first = Month::of(from)?;
    let mut report = SchemaReport::default();
    for shard in store.layout().shards() {
        let mut lock = SchemaLock::take(store, shard).await?;
        report.databases += 1;
        report.migrations += migrate(store, shard, &mut lock.session, first).await?;
        report.months +=
            months::add_missing(store, shard, &mut lock.session, first, MONTHS_AHEAD).await?;
        lock.release().await?;
    }
    Ok(report)
}

/// Applies the versions that a database does not have; how many those were.
async fn migrate(
    store: &MessageStore,
    shard: Shard,
    session: &mut Session,
    first: Month,
) -> Result<usize, StoreError> {
    let database = store.names().database(shard);
    session
        .execute(format!(
            "CREATE DATABASE IF NOT EXISTS {database} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        ))
        .await?;
    session
        .execute(fill_database(SCHEMA_VERSION, &database))
        .await?;
    let present = present_version(session, &database).await?;
    let known = MIGRATIONS.len() as u32;
    if present > known {
        return Err(StoreError::fatal(format!(
            "database {database} has schema version {present}, this program knows {known}: use a newer one"
        )));
    }
    let pending = MIGRATIONS
        .iter()
        .filter(|migration| migration.version > present);
    let mut applied = 0;
    for migration in pending {
        run(store, shard, session, migration, first).await?;
        let Migration { version, name, .. } = migration;
        session
            .execute(format!(
                "INSERT INTO {database}.schema_version (version, name) VALUES ({version}, '{name}')"
            ))
            .await?;
        tracing::info!(database, version, name, "schema version applied");
        applied += 1;
    }
    Ok(applied)
}

async fn present_version(session: &mut Session, database: &str) -> Result<u32, StoreError> {
    let sql = format!(
        "SELECT CAST(COALESCE(MAX(version), 0) AS UNSIGNED) AS version FROM {database}.schema_version"
    );
    let rows = session.fetch(sql, MySqlArguments::default()).await?;
    let version: u64 = rows[0].try_get("version")?;
    u32::try_from(version).map_err(StoreError::fatal)
}

async fn run(
    store: &MessageStore,
    shard: Shard,
    session: &mut Session,
    migration: &Migration,
    first: Month,
) -> Result<(), StoreError> {
    let database = store.names().database(shard);
    let months: Vec<String> = first
        .and_ahead(MONTHS_AHEAD)
        .map(Month::partition)
        .collect();
    let months = months.join(", ");
    for sql in migration.once {
        session.execute(fill_database(sql, &database)).await?;
    }
    for n in store.layout().partitions_of(shard) {
        for sql in migration.per_table {
            let sql = fill_database(sql, &database)
                .replace("{n}", &n.to_string())
                .replace("{months}", &months);
            session.execute(sql).await?;
        }
    }
    Ok(())
}

fn fill_database(sql: &str, database: &str) -> String {
    sql.replace("{database}", database)
}
