use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use schemas::{LogPosition, Partition, PartitionMap, TableNumber, TimestampMs};
use sqlx::MySqlPool;

use crate::{
    ContactDelta, Layout, MessageRow, Month, MonthSize, MySqlConfig, OffsetUpdate, ReadRow, ReadTx,
    SchemaReport, Shard, Sink, StoreError,
    names::Names,
    schema,
    session::{self, Session},
    write,
};

/// The message store: the databases of one deployment. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct MessageStore {
    inner: Arc<Inner>,
    names: Names,
}

#[derive(Debug)]
struct Inner {
    layout: Layout,
    pools: Vec<MySqlPool>,
    /// The first month that each database keeps, where it is known. It never goes back.
    kept_from_cache: Mutex<BTreeMap<Shard, Month>>,
    statement_timeout: Duration,
}

impl MessageStore {
    /// A store that connects when it is first used.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    #[must_use]
    pub fn connect(config: &MySqlConfig) -> Self {
        let pools = config
            .servers
            .iter()
            .map(|server| session::lazy_pool(server, config))
            .collect();
        Self {
            inner: Arc::new(Inner {
                layout: Layout::new(config),
                pools,
                kept_from_cache: Mutex::default(),
                statement_timeout: Duration::from_millis(config.statement_timeout_ms),
            }),
            names: Names::new(config),
        }
    }

    /// The same store, with the shadow tables of `sink` and their offsets in place of the live ones.
    #[must_use]
    pub fn shadow(&self, sink: Sink) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            names: self.names.with_shadow(sink),
        }
    }

    /// The assignment of tables to databases and of databases to servers.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.inner.layout
    }

    /// Whether every server answers.
    ///
    /// # Errors
    /// That of the first server that does not.
    pub async fn ping(&self) -> Result<(), StoreError> {
        for pool in &self.inner.pools {
            let mut session = Session::acquire(pool, self.inner.statement_timeout).await?;
            session.execute("DO 0".to_owned()).await?;
        }
        Ok(())
    }

    /// Waits until the connections are unused, and closes them.
    pub async fn close(&self) {
        for pool in &self.inner.pools {
            pool.close().await;
        }
    }

    /// Opens a snapshot of one database: everything read through it is as of now.
    ///
    /// # Errors
    /// Transient where the server cannot be reached.
    pub async fn snapshot(&self, shard: Shard) -> Result<ReadTx, StoreError> {
        ReadTx::begin(self, shard).await
    }

    /// The resume offsets of `partitions` in one database; the start where a row is missing.
    ///
    /// # Errors
    /// As all reads.
    pub async fn read_resume_offsets(
        &self,
        shard: Shard,
        sink: Sink,
        topic: &str,
        partitions: &[Partition],
    ) -> Result<PartitionMap<LogPosition>, StoreError> {
        self.snapshot(shard)
            .await?
            .resume_offsets(sink, topic, partitions)
            .await
    }

    /// Inserts messages and updates the offsets of [`Sink::Messages`], both or nothing. `rows` may be empty, and in any order.
    /// Rows that are there already although the offset says that they are not are replaced by those with their ids. A month that is missing
    /// before others is made; rows of months that were dropped are left out.
    ///
    /// # Errors
    /// [`StoreError::Moved`] where an offset is not what the move says; fatal where a row that no move goes over is there
    /// already, or belongs to another database.
    pub async fn write_messages(
        &self,
        shard: Shard,
        topic: &str,
        rows: &[MessageRow],
        updates: &[OffsetUpdate],
    ) -> Result<(), StoreError> {
        write::messages(self, shard, topic, rows, updates).await
    }

    /// Moves resume offsets over records that nobody can read any more.
    ///
    /// # Errors
    /// [`StoreError::Moved`] where an offset is not what the move says.
    pub async fn update_resume_offsets(
        &self,
        shard: Shard,
        sink: Sink,
        topic: &str,
        updates: &[OffsetUpdate],
    ) -> Result<(), StoreError> {
        write::resume(self, shard, sink, topic, updates).await
    }

    /// Raises read positions and updates the offsets of [`Sink::Reads`], both or nothing.
    ///
    /// # Errors
    /// As [`write_messages`](Self::write_messages).
    pub async fn write_reads<'a>(
        &self,
        shard: Shard,
        topic: &str,
        rows: impl IntoIterator<Item = &'a ReadRow> + Send,
        updates: &[OffsetUpdate],
    ) -> Result<(), StoreError> {
        write::reads(self, shard, topic, rows, updates).await
    }

    /// Merges contacts by maximum and updates the offsets of [`Sink::Contacts`], both or nothing.
    ///
    /// # Errors
    /// As [`write_messages`](Self::write_messages).
    pub async fn write_contacts<'a>(
        &self,
        shard: Shard,
        topic: &str,
        rows: impl IntoIterator<Item = &'a ContactDelta> + Send,
        updates: &[OffsetUpdate],
    ) -> Result<(), StoreError> {
        write::contacts(self, shard, topic, rows, updates).await
    }

    /// Writes a row to a database and deletes it: a server that is read-only or full answers reads, but fails this.
    ///
    /// # Errors
    /// As writes; never [`StoreError::Moved`].
    pub async fn probe_write(&self, shard: Shard) -> Result<(), StoreError> {
        write::probe(self, shard).await
    }

    /// Creates or brings up to date all databases, tables and months, from the month of `from` on: the time of the
    /// oldest message that is to be stored, which is now in a new system. May run any number of times, also at once.
    ///
    /// # Errors
    /// Fatal where a database was made by a newer version of this program.
    pub async fn apply_schema(&self, from: TimestampMs) -> Result<SchemaReport, StoreError> {
        schema::apply(self, from).await
    }

    /// Adds the months that are missing, up to `ahead` months after that of `now`; how many were added over all tables.
    ///
    /// # Errors
    /// Transient where a table is in use for too long.
    pub async fn ensure_months(&self, now: TimestampMs, ahead: u8) -> Result<usize, StoreError> {
        schema::ensure_months(self, now, ahead).await
    }

    /// The months up to `ahead` after that of `now` that are missing, by table.
    ///
    /// # Errors
    /// As all reads.
    pub async fn missing_months(
        &self,
        now: TimestampMs,
        ahead: u8,
    ) -> Result<BTreeMap<TableNumber, Vec<Month>>, StoreError> {
        schema::missing_months(self, now, ahead).await
    }

    /// The first month of messages that a database keeps; `None` where nothing was ever dropped.
    ///
    /// # Errors
    /// As all reads.
    pub async fn kept_from(&self, shard: Shard) -> Result<Option<Month>, StoreError> {
        let mut session = self.session(shard).await?;
        schema::kept_from(self, shard, &mut session).await
    }

    /// Every month of every `chat_msg_<n>`, with its size.
    ///
    /// # Errors
    /// As all reads.
    pub async fn list_months(
        &self,
    ) -> Result<BTreeMap<TableNumber, BTreeMap<Month, MonthSize>>, StoreError> {
        schema::list_months(self).await
    }

    /// Drops all months of messages before `before`, for good: whoever reads the log again does not write them any more. How many over
    /// all tables.
    ///
    /// # Errors
    /// As [`MessageStore::expect_past`]; transient where a table is in use for too long.
    pub async fn drop_months(&self, before: Month, now: TimestampMs) -> Result<usize, StoreError> {
        schema::drop_months(self, before, now).await
    }

    /// Whether [`MessageStore::drop_months`] may be asked for.
    ///
    /// # Errors
    /// Fatal where `before` lies after the month of the newest message, or after that of `now`.
    pub async fn expect_past(&self, before: Month, now: TimestampMs) -> Result<(), StoreError> {
        schema::expect_past(self, before, now).await
    }

    /// Drops, for good, what lies more than `kept` months before the month of the newest message, or before that of `now` where that is
    /// earlier. How many months over all tables.
    ///
    /// # Errors
    /// Transient where a table is in use for too long.
    pub async fn keep_months(&self, kept: u16, now: TimestampMs) -> Result<usize, StoreError> {
        schema::keep_months(self, kept, now).await
    }

    /// The first month that a database keeps, as last read from it.
    pub(crate) fn known_kept_from(&self, shard: Shard) -> Option<Month> {
        self.kept_from_cache().get(&shard).copied()
    }

    pub(crate) fn learn_kept_from(&self, shard: Shard, kept_from: Option<Month>) {
        if let Some(month) = kept_from {
            let mut cache = self.kept_from_cache();
            let known = cache.entry(shard).or_insert(month);
            *known = month.max(*known);
        }
    }

    fn kept_from_cache(&self) -> MutexGuard<'_, BTreeMap<Shard, Month>> {
        self.inner
            .kept_from_cache
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    pub(crate) fn pool(&self, shard: Shard) -> &MySqlPool {
        &self.inner.pools[self.inner.layout.server_of(shard)]
    }

    pub(crate) fn statement_timeout(&self) -> Duration {
        self.inner.statement_timeout
    }

    pub(crate) async fn session(&self, shard: Shard) -> Result<Session, StoreError> {
        Session::acquire(self.pool(shard), self.inner.statement_timeout).await
    }
}
