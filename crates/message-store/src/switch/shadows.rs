use std::collections::BTreeSet;

use schemas::{Partition, TableNumber, TimestampMs};
use sqlx::Row as _;

use super::of_offsets;
use crate::{
    Layout, MessageStore, Shard, Sink, StoreError,
    arguments::Arguments,
    names::Table,
    schema::{self, SchemaLock},
    session::{Session, WRITE_BEGIN},
};

/// The tables that one switch replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shadows {
    /// Whose tables.
    pub sink: Sink,
    /// The database that holds them.
    pub shard: Shard,
    /// Their numbers.
    pub tables: Vec<TableNumber>,
    /// The partitions of the log that say what is in them.
    pub partitions: Vec<Partition>,
}

/// What is there of shadows when they are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// Nothing; a former run may have got as far as the switch, which is settled now.
    Nothing,
    /// Nothing, and a live table is not there either.
    Missing,
    /// Shadows that a former run did not finish, as far as their offsets say.
    Begun,
}

impl Shadows {
    /// What `sink` writes, or only the table `only`, in as few switches as can be: messages and read positions table by table, as each
    /// has offsets of its own; contacts database by database, since all of its tables share their offsets.
    #[must_use]
    pub fn of(layout: Layout, sink: Sink, only: Option<TableNumber>) -> Vec<Self> {
        let wanted = |number: &TableNumber| only.is_none_or(|only| only == *number);
        let in_database = |shard| {
            let partitions: Vec<Partition> = layout.source_partitions(sink, shard).collect();
            let new = |tables, partitions| Self {
                sink,
                shard,
                tables,
                partitions,
            };
            match sink {
                Sink::Contacts => vec![new(
                    layout.tables_of(shard).filter(wanted).collect(),
                    partitions,
                )],
                Sink::Messages | Sink::Reads => partitions
                    .into_iter()
                    .map(|partition| new(vec![partition.into()], vec![partition]))
                    .collect(),
            }
        };
        let all = layout.shards().flat_map(in_database);
        all.filter(|shadows| shadows.tables.iter().any(wanted))
            .collect()
    }

    /// Whether the partitions' offsets say nothing of any other table, so that they may be moved along with these.
    pub(super) fn own_their_offsets(&self, layout: Layout) -> bool {
        self.sink != Sink::Contacts || self.tables.iter().copied().eq(layout.tables_of(self.shard))
    }

    /// All tables that share the partitions' offsets.
    fn siblings(&self, layout: Layout) -> Vec<TableNumber> {
        match self.sink {
            Sink::Contacts => layout.tables_of(self.shard).collect(),
            Sink::Messages | Sink::Reads => self.tables.clone(),
        }
    }

    fn kind(&self) -> Table {
        Table::of(self.sink)
    }
}

impl MessageStore {
    /// Looks for what a former run left of these shadows, and cleans up: tables that were replaced go, and a switch that was not
    /// settled is. The database is made if it is not there, without the tables that writers wait for.
    ///
    /// # Errors
    /// As all writes.
    pub async fn find_shadows(
        &self,
        shadows: &Shadows,
        topic: &str,
    ) -> Result<Leftover, StoreError> {
        let mut lock = SchemaLock::take(self, shadows.shard).await?;
        let found = self.find(shadows, topic, &mut lock.session).await?;
        lock.release().await?;
        Ok(found)
    }

    async fn find(
        &self,
        shadows: &Shadows,
        topic: &str,
        session: &mut Session,
    ) -> Result<Leftover, StoreError> {
        schema::ensure_database(self, shadows.shard, session).await?;
        let there = tables_of(self, shadows.shard, session).await?;
        for number in &shadows.tables {
            self.drop_table(*number, &shadows.kind().retired(*number), session)
                .await?;
        }
        let siblings = shadows.siblings(self.layout());
        let begun: Vec<TableNumber> = siblings
            .into_iter()
            .filter(|number| there.contains(&shadows.kind().shadow(*number)))
            .collect();
        if begun == shadows.tables {
            return Ok(Leftover::Begun);
        }
        if begun.is_empty() {
            settle(self, shadows, topic, session).await?;
        } else {
            // They were begun for other tables: their offsets say nothing of these.
            self.discard(shadows, topic, session).await?;
        }
        let is_live = |number: &TableNumber| there.contains(&shadows.kind().name(*number));
        Ok(if shadows.tables.iter().all(is_live) {
            Leftover::Nothing
        } else {
            Leftover::Missing
        })
    }

    /// Makes empty shadows, or gives those that are there the months that they lack at `now`.
    ///
    /// # Errors
    /// As all writes.
    pub async fn create_shadows(
        &self,
        shadows: &Shadows,
        now: TimestampMs,
    ) -> Result<(), StoreError> {
        let mut lock = SchemaLock::take(self, shadows.shard).await?;
        for number in &shadows.tables {
            let session = &mut lock.session;
            schema::create_shadow(self, shadows.kind(), *number, session, now).await?;
        }
        lock.release().await
    }

    /// Drops shadows that are of no use, and forgets how far they were.
    ///
    /// # Errors
    /// As all writes.
    pub async fn discard_shadows(&self, shadows: &Shadows, topic: &str) -> Result<(), StoreError> {
        let mut lock = SchemaLock::take(self, shadows.shard).await?;
        self.discard(shadows, topic, &mut lock.session).await?;
        lock.release().await
    }

    async fn discard(
        &self,
        shadows: &Shadows,
        topic: &str,
        session: &mut Session,
    ) -> Result<(), StoreError> {
        // First the offsets: a table without them is begun anew, and offsets without a table look like a switch.
        let offsets = self.names().resume_offset(shadows.shard);
        let forget = include_str!("../../sql/switch/forget.sql");
        session
            .execute(of_offsets(forget, &offsets, topic, shadows)?)
            .await?;
        for number in shadows.siblings(self.layout()) {
            self.drop_table(number, &shadows.kind().shadow(number), session)
                .await?;
        }
        Ok(())
    }

    /// Drops the tables whose place was taken.
    ///
    /// # Errors
    /// As all writes.
    pub async fn drop_replaced(&self, shadows: &Shadows) -> Result<(), StoreError> {
        let mut lock = SchemaLock::take(self, shadows.shard).await?;
        for number in &shadows.tables {
            let name = shadows.kind().retired(*number);
            self.drop_table(*number, &name, &mut lock.session).await?;
        }
        lock.release().await
    }

    async fn drop_table(
        &self,
        number: TableNumber,
        name: &str,
        session: &mut Session,
    ) -> Result<(), StoreError> {
        let table = self.names().within(number, name);
        let sql = format!("DROP TABLE IF EXISTS {table}");
        session
            .execute(sql)
            .await
            .map_err(|error| error.of(&table))?;
        Ok(())
    }
}

/// Forgets how far shadows were that have taken their place. Where the fence was lost just then, writers may have gone on with the
/// table that is gone: they are sent back to what the new one holds.
pub(super) async fn settle(
    store: &MessageStore,
    shadows: &Shadows,
    topic: &str,
    session: &mut Session,
) -> Result<(), StoreError> {
    let offsets = store.names().resume_offset(shadows.shard);
    let fill = |template| of_offsets(template, &offsets, topic, shadows);
    session.execute(WRITE_BEGIN.to_owned()).await?;
    session
        .execute(fill(include_str!("../../sql/switch/go_back.sql"))?)
        .await?;
    session
        .execute(fill(include_str!("../../sql/switch/forget.sql"))?)
        .await?;
    session.execute("COMMIT".to_owned()).await?;
    Ok(())
}

/// The names of all tables of a database.
pub(super) async fn tables_of(
    store: &MessageStore,
    shard: Shard,
    session: &mut Session,
) -> Result<BTreeSet<String>, StoreError> {
    let database = Arguments::default().with(store.names().database(shard));
    let sql = include_str!("../../sql/switch/list_tables.sql").to_owned();
    let rows = session.fetch(sql, database.finish()?).await?;
    let name = |row: &sqlx::mysql::MySqlRow| Ok(row.try_get("table_name")?);
    rows.iter().map(name).collect()
}
