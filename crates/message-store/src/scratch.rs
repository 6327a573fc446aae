//! Databases beside the live ones, with the projections as they were at an earlier time. They have a prefix of their own, so a store of its own
//! reads and writes them.

use std::{collections::BTreeSet, path::PathBuf};

use schemas::TimestampMs;
use sqlx::Row as _;
use time::PrimitiveDateTime;

use crate::{
    MessageStore, StoreError, arguments::Arguments, datetime, names::SCRATCH,
    schema::create_empty_database, swap::tables_of,
};

/// What the databases of a scratch say of themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScratchNote {
    /// The time as of which the databases are.
    pub as_of: TimestampMs,
    /// From where on the log was read, if not from its beginning. The databases then have only the rows of messages. At most 64 bytes.
    pub slice: Option<String>,
    /// Whether the databases have everything up to that time.
    pub is_complete: bool,
}

/// What a server has of the databases of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerDisk {
    /// The address of the server.
    pub host: String,
    /// Where it keeps its data, as it says.
    pub folder: PathBuf,
    /// How many bytes the databases take there, by the server's statistics.
    pub bytes: u64,
}

impl MessageStore {
    /// What each server has of the databases under the prefix of this store.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn disks(&self) -> Result<Vec<ServerDisk>, StoreError> {
        let mut disks = Vec::new();
        for shard in self.shards_of_servers() {
            let prefix = self.names().prefix();
            let arguments = Arguments::default().with(prefix).with(prefix);
            let sql = include_str!("../sql/read/size.sql").to_owned();
            let mut session = self.session(shard).await?;
            for row in session.fetch(sql, arguments.finish()?).await? {
                let folder: String = row.try_get("folder")?;
                disks.push(ServerDisk {
                    host: self.pool(shard).connect_options().get_host().to_owned(),
                    folder: folder.into(),
                    bytes: row.try_get::<i64, _>("bytes")?.cast_unsigned(),
                });
            }
        }
        Ok(disks)
    }

    /// Notes what the databases under the prefix of this store have, and creates the first one if there is none.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn write_scratch_note(&self, note: &ScratchNote) -> Result<(), StoreError> {
        let first = self.shards_of_servers()[0];
        let table = self.names().scratch(first);
        let as_of = datetime::to_column(note.as_of)?;
        let sql = include_str!("../sql/schema/scratch.sql").replace("{table}", &table);
        let mut session = self.session(first).await?;
        create_empty_database(&mut session, &self.names().database(first)).await?;
        session.execute(sql).await?;
        let sql =
            format!("REPLACE INTO {table} (id, as_of, slice, is_complete) VALUES (0, ?, ?, ?)");
        let arguments = Arguments::default()
            .with(as_of)
            .with(note.slice.as_deref())
            .with(note.is_complete);
        session.fetch(sql, arguments.finish()?).await?;
        Ok(())
    }

    /// The note of the databases under the prefix of this store; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn scratch_note(&self) -> Result<Option<ScratchNote>, StoreError> {
        let first = self.shards_of_servers()[0];
        let mut session = self.session(first).await?;
        let tables = tables_of(self, first, &mut session).await?;
        if !tables.contains(SCRATCH) {
            return Ok(None);
        }
        let table = self.names().scratch(first);
        let sql = format!("SELECT as_of, slice, is_complete FROM {table}");
        let rows = session.fetch_text(sql).await?;
        let note = rows.first().map(|row| {
            let as_of: PrimitiveDateTime = row.try_get("as_of")?;
            Ok(ScratchNote {
                as_of: datetime::from_column(as_of),
                slice: row.try_get("slice")?,
                is_complete: row.try_get("is_complete")?,
            })
        });
        note.transpose()
    }

    /// The names of all scratches whose databases begin with the prefix of this store, ascending.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn scratches(&self) -> Result<BTreeSet<String>, StoreError> {
        let prefix = self.names().prefix();
        let databases = self.databases("[a-z0-9]+_[0-9]+").await?;
        let name = |database: &String| {
            let (name, _) = database.strip_prefix(prefix)?.rsplit_once('_')?;
            Some(name.to_owned())
        };
        Ok(databases.iter().filter_map(name).collect())
    }

    /// The names of the databases of all servers that have this pattern after the prefix of this store.
    async fn databases(&self, pattern: &str) -> Result<Vec<String>, StoreError> {
        let mut names = Vec::new();
        for shard in self.shards_of_servers() {
            let sql = include_str!("../sql/schema/list_databases.sql").to_owned();
            let prefix = self.names().prefix();
            let arguments = Arguments::default().with(prefix).with(pattern);
            let rows = self
                .session(shard)
                .await?
                .fetch(sql, arguments.finish()?)
                .await?;
            for row in rows {
                names.push(row.try_get("name")?);
            }
        }
        Ok(names)
    }

    /// Drops the databases of this store, whatever they have. Returns how many.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn drop_databases(&self) -> Result<usize, StoreError> {
        let names = self.databases("[0-9]+").await?;
        // The first database has the note and goes last: until then the databases are known as a scratch.
        for name in names.iter().rev() {
            for shard in self.shards_of_servers() {
                let mut session = self.session(shard).await?;
                session
                    .execute(format!("DROP DATABASE IF EXISTS {name}"))
                    .await?;
            }
        }
        Ok(names.len())
    }
}
