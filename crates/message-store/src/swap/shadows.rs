use std::collections::BTreeSet;

use schemas::{Partition, TableNumber, TimestampMs};
use sqlx::Row as _;

use super::of_offsets;
use crate::{
    Layout, MessageStore, Shard, Sink, StoreError,
    arguments::Arguments,
    names::{Table, shadow_sink_name},
    schema::{self, SchemaLock},
    session::{Session, WRITE_BEGIN},
};

/// The shadow tables that one swap puts into place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shadows {
    /// The kind of tables.
    pub sink: Sink,
    /// The database that holds them.
    pub shard: Shard,
    /// Their numbers.
    pub tables: Vec<TableNumber>,
    /// The partitions of the log that they are built from.
    pub partitions: Vec<Partition>,
}

/// What exists of shadow tables before a rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShadowState {
    /// There are no shadow tables. If an earlier swap was not finished, [`MessageStore::recover_shadows`] has finished it.
    Absent,
    /// No shadow tables, and a live table is missing, too.
    LiveMissing,
    /// Shadow tables that an earlier rebuild has filled up to their offsets.
    Unfinished,
}

impl Shadows {
    /// One for each swap that the tables of `sink` need, or only for the table `only`. Messages and read positions are swapped table by table, since each
    /// table has offsets of its own. Contacts are swapped database by database, since all tables of a database share their offsets.
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

    /// Whether the swap may update the live offsets: only if it replaces all tables that share them.
    pub(super) fn own_their_offsets(&self, layout: Layout) -> bool {
        self.sink != Sink::Contacts || self.tables.iter().copied().eq(layout.tables_of(self.shard))
    }

    /// All tables that share the offsets.
    fn siblings(&self, layout: Layout) -> Vec<TableNumber> {
        match self.sink {
            Sink::Contacts => layout.tables_of(self.shard).collect(),
            Sink::Messages | Sink::Reads => self.tables.clone(),
        }
    }

    /// The kinds of tables: what is built together is swapped together.
    pub(super) fn kinds(&self) -> &'static [Table] {
        Table::of(self.sink)
    }
}

impl MessageStore {
    /// Finds what an earlier rebuild left of these shadow tables, and cleans up: replaced tables are dropped, and a swap that was not finished
    /// is finished. A missing database is created without the tables that sinks write: a sink waits for them until they are complete.
    ///
    /// # Errors
    /// As all writes.
    pub async fn recover_shadows(
        &self,
        shadows: &Shadows,
        topic: &str,
    ) -> Result<ShadowState, StoreError> {
        let mut lock = SchemaLock::take(self, shadows.shard).await?;
        let found = self.recover(shadows, topic, &mut lock.session).await?;
        lock.release().await?;
        Ok(found)
    }

    async fn recover(
        &self,
        shadows: &Shadows,
        topic: &str,
        session: &mut Session,
    ) -> Result<ShadowState, StoreError> {
        schema::ensure_database(self, shadows.shard, session).await?;
        let existing = tables_of(self, shadows.shard, session).await?;
        for number in &shadows.tables {
            for kind in shadows.kinds() {
                self.drop_table(*number, &kind.retired(*number), session)
                    .await?;
            }
        }
        let mut found: Vec<(TableNumber, Table)> = Vec::new();
        for number in shadows.siblings(self.layout()) {
            let kinds = shadows.kinds().iter().map(|kind| (number, *kind));
            found.extend(kinds.filter(|(n, kind)| existing.contains(&kind.shadow(*n))));
        }
        // An earlier version of this program may have built fewer kinds of tables, and another rebuild other numbers.
        let wanted = shadows.tables.iter().flat_map(|number| {
            let kinds = shadows.kinds().iter();
            kinds.map(|kind| (*number, *kind))
        });
        if found.iter().copied().eq(wanted) {
            return Ok(ShadowState::Unfinished);
        }
        if found.is_empty() {
            // Offsets of shadow tables that do not exist are those of a swap whose RENAME was done. Without any, this changes nothing.
            finish_swap(self, shadows, topic, session).await?;
        } else {
            // Another set of shadow tables was begun, whose offsets do not hold for this set.
            self.discard(shadows, topic, session).await?;
        }
        let is_live = |number: &TableNumber| {
            let mut kinds = shadows.kinds().iter();
            kinds.all(|kind| existing.contains(&kind.name(*number)))
        };
        Ok(if shadows.tables.iter().all(is_live) {
            ShadowState::Absent
        } else {
            ShadowState::LiveMissing
        })
    }

    /// Creates empty shadow tables, or adds the months that existing ones lack at `now`.
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
            for kind in shadows.kinds() {
                let session = &mut lock.session;
                schema::create_shadow(self, *kind, *number, session, now).await?;
            }
        }
        lock.release().await
    }

    /// Drops shadow tables and their offsets.
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
        // The offsets go first: a table without them is built from the start, but offsets without a table look like an unfinished swap.
        let offsets = self.names().resume_offset(shadows.shard);
        let forget = include_str!("../../sql/swap/delete_shadow_offsets.sql");
        session
            .execute(of_offsets(forget, &offsets, topic, shadows)?)
            .await?;
        if shadows.sink == Sink::Contacts {
            let unresolved_reads = self.names().unresolved_read(shadows.shard);
            let built = shadow_sink_name(Sink::Contacts);
            let forget = format!("DELETE FROM {unresolved_reads} WHERE sink = '{built}'");
            session.execute(forget).await?;
        }
        for number in shadows.siblings(self.layout()) {
            for kind in shadows.kinds() {
                self.drop_table(number, &kind.shadow(number), session)
                    .await?;
            }
        }
        Ok(())
    }

    /// Drops the replaced tables.
    ///
    /// # Errors
    /// As all writes.
    pub async fn drop_replaced(&self, shadows: &Shadows) -> Result<(), StoreError> {
        let mut lock = SchemaLock::take(self, shadows.shard).await?;
        for number in &shadows.tables {
            for kind in shadows.kinds() {
                let name = kind.retired(*number);
                self.drop_table(*number, &name, &mut lock.session).await?;
            }
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

/// Finishes a swap after its RENAME: deletes the offsets of the shadow tables. If the fence was lost during the swap, writers may have gone on with a
/// table that is replaced. So live offsets that are ahead are first set back to what the new table holds.
pub(super) async fn finish_swap(
    store: &MessageStore,
    shadows: &Shadows,
    topic: &str,
    session: &mut Session,
) -> Result<(), StoreError> {
    let offsets = store.names().resume_offset(shadows.shard);
    let fill = |template| of_offsets(template, &offsets, topic, shadows);
    session.execute(WRITE_BEGIN.to_owned()).await?;
    session
        .execute(fill(include_str!("../../sql/swap/reset_live_offsets.sql"))?)
        .await?;
    session
        .execute(fill(include_str!(
            "../../sql/swap/delete_shadow_offsets.sql"
        ))?)
        .await?;
    session.execute("COMMIT".to_owned()).await?;
    Ok(())
}

/// The names of all tables of a database.
pub(crate) async fn tables_of(
    store: &MessageStore,
    shard: Shard,
    session: &mut Session,
) -> Result<BTreeSet<String>, StoreError> {
    let database = Arguments::default().with(store.names().database(shard));
    let sql = include_str!("../../sql/swap/list_tables.sql").to_owned();
    let rows = session.fetch(sql, database.finish()?).await?;
    let name = |row: &sqlx::mysql::MySqlRow| Ok(row.try_get("table_name")?);
    rows.iter().map(name).collect()
}
