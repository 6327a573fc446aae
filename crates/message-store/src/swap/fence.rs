use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use schemas::{LogPosition, PartitionMap};
use sqlx::Row as _;

use super::{
    Shadows, of_offsets,
    shadows::{finish_swap, tables_of},
};
use crate::{
    MessageStore, Month, OffsetUpdate, Sink, StoreError,
    names::Table,
    read::decode,
    resume::{self, OffsetStatements, insert_starts},
    schema::{self, SchemaLock},
    session::{Session, WRITE_BEGIN},
};

/// A RENAME waits for readers of the table, and new readers wait for the RENAME.
const SHORT_LOCK_TIMEOUT: &str = "SET @usual = @@lock_wait_timeout, SESSION lock_wait_timeout = 2";
const RESTORE_LOCK_TIMEOUT: &str = "SET SESSION lock_wait_timeout = @usual";

/// The server's list of transactions is up to 100 ms old.
const SNAPSHOT_POLL_INTERVAL: Duration = Duration::from_millis(150);

/// Blocks writers of the live tables by locking their offset rows: writers update those before any other row. The server releases the locks
/// when the connection is idle for 10 s.
#[derive(Debug)]
pub struct Fence {
    store: MessageStore,
    shadows: Shadows,
    topic: String,
    offsets: Session,
    /// Prevents a month from being added to one of the two tables only.
    schema: SchemaLock,
    live: PartitionMap<LogPosition>,
    since: Instant,
}

impl Fence {
    /// Waits for transactions in flight, and locks the offsets.
    ///
    /// # Errors
    /// As all writes; fatal if the database has a newer schema than this program's tables.
    pub async fn acquire(
        store: &MessageStore,
        shadows: &Shadows,
        topic: &str,
    ) -> Result<Self, StoreError> {
        let mut schema = SchemaLock::take(store, shadows.shard).await?;
        let database = store.names().database(shadows.shard);
        schema::expect_no_newer_version(&mut schema.session, &database).await?;
        copy_months(store, shadows, &mut schema.session).await?;
        schema
            .session
            .execute(SHORT_LOCK_TIMEOUT.to_owned())
            .await?;
        let mut offsets = store.session(shadows.shard).await?;
        // If a step before the end fails, the connection is closed, and the server rolls back.
        offsets.close_unless_released();
        let table = store.names().resume_offset(shadows.shard);
        offsets.execute(WRITE_BEGIN.to_owned()).await?;
        let starts = insert_starts(&table, shadows.sink.name(), topic, &shadows.partitions);
        offsets.execute(starts).await?;
        let since = Instant::now();
        let lock_offsets = include_str!("../../sql/swap/lock_live_offsets.sql");
        let lock_offsets = of_offsets(lock_offsets, &table, topic, shadows)?;
        let rows = offsets.fetch_text(lock_offsets).await?;
        Ok(Self {
            store: store.clone(),
            shadows: shadows.clone(),
            topic: topic.to_owned(),
            offsets,
            schema,
            live: resume::or_start(&shadows.partitions, &decode::resume_offsets(&rows)?),
            since,
        })
    }

    /// The positions of the live tables, which cannot change while the fence is held.
    #[must_use]
    pub fn live_positions(&self) -> &PartitionMap<LogPosition> {
        &self.live
    }

    /// Checks that the locks are still held, and keeps the connection from becoming idle.
    ///
    /// # Errors
    /// Transient if the locks were lost.
    pub async fn keep_alive(&mut self) -> Result<(), StoreError> {
        self.offsets.execute("DO 0".to_owned()).await?;
        Ok(())
    }

    /// Waits until all snapshots older than now are closed: after a RENAME they would read the new tables as these were when the snapshot was
    /// opened.
    ///
    /// # Errors
    /// Transient if a snapshot stays open for longer than `timeout`.
    pub async fn wait_for_snapshots(&mut self, timeout: Duration) -> Result<(), StoreError> {
        let deadline = Instant::now() + timeout;
        tokio::time::sleep(SNAPSHOT_POLL_INTERVAL).await;
        let mut older = self.snapshots().await?;
        while !older.is_empty() {
            if Instant::now() > deadline {
                let threads: Vec<String> = older.iter().map(|(id, _)| id.to_string()).collect();
                return Err(StoreError::transient(format!(
                    "snapshots stay open for too long, of the connections {}",
                    threads.join(", ")
                )));
            }
            tokio::time::sleep(SNAPSHOT_POLL_INTERVAL).await;
            let open = self.snapshots().await?;
            older.retain(|snapshot| open.contains(snapshot));
        }
        Ok(())
    }

    /// The connections with a snapshot, and since when each has it.
    async fn snapshots(&mut self) -> Result<BTreeSet<(i64, String)>, StoreError> {
        let sql = include_str!("../../sql/swap/open_snapshots.sql").to_owned();
        let rows = self.offsets.fetch_text(sql).await?;
        let snapshot = |row: &sqlx::mysql::MySqlRow| {
            let bytes: Vec<u8> = row.try_get_unchecked("started")?;
            let started = String::from_utf8_lossy(&bytes).into_owned();
            Ok((row.try_get("thread")?, started))
        };
        rows.iter().map(snapshot).collect()
    }

    /// Replaces the live tables by the shadow tables, whose positions are `built`, with one RENAME, and releases the fence. Returns for how long the
    /// fence was held. The live offsets become those of the shadow tables.
    ///
    /// # Errors
    /// Fatal if the shadow tables are behind the live ones. After a transient error the swap may have happened nevertheless: recover the shadow
    /// tables again.
    pub async fn swap(mut self, built: &PartitionMap<LogPosition>) -> Result<Duration, StoreError> {
        let updates = self.offset_updates(built)?;
        let renames = self.renames().await?;
        self.keep_alive().await?;
        self.schema.session.execute(renames).await?;
        if let Err(error) = self.finish(&updates).await {
            tracing::warn!(%error, "the fence was lost during the swap; the offsets are repaired");
            finish_swap(
                &self.store,
                &self.shadows,
                &self.topic,
                &mut self.schema.session,
            )
            .await?;
        }
        let held = self.since.elapsed();
        let session = &mut self.schema.session;
        session.execute(RESTORE_LOCK_TIMEOUT.to_owned()).await?;
        self.schema.release().await?;
        Ok(held)
    }

    fn offset_updates(
        &self,
        built: &PartitionMap<LogPosition>,
    ) -> Result<Vec<OffsetUpdate>, StoreError> {
        let mut updates = Vec::new();
        for (partition, from) in self.live.iter() {
            let to = built.get(partition).copied().unwrap_or_default();
            if to.next < from.next {
                return Err(StoreError::fatal(format!(
                    "the new tables are behind the live ones in partition {partition}"
                )));
            }
            // At the same offset the watermark may differ, if the log was truncated since.
            if to != *from {
                updates.push(OffsetUpdate {
                    partition,
                    from: *from,
                    to,
                });
            }
        }
        let owned = self.shadows.own_their_offsets(self.store.layout());
        Ok(if owned { updates } else { Vec::new() })
    }

    /// One RENAME for all tables. A live table may be missing.
    async fn renames(&mut self) -> Result<String, StoreError> {
        let existing = tables_of(&self.store, self.shadows.shard, &mut self.schema.session).await?;
        let names = self.store.names();
        let mut renames = Vec::new();
        for n in &self.shadows.tables {
            for kind in self.shadows.kinds() {
                let live = names.within(*n, &kind.name(*n));
                if existing.contains(&kind.name(*n)) {
                    renames.push(format!("{live} TO {}", names.within(*n, &kind.retired(*n))));
                }
                renames.push(format!("{} TO {live}", names.within(*n, &kind.shadow(*n))));
            }
        }
        Ok(format!("RENAME TABLE {}", renames.join(", ")))
    }

    /// Updates the live offsets, deletes those of the shadow tables, and releases the locks.
    async fn finish(&mut self, updates: &[OffsetUpdate]) -> Result<(), StoreError> {
        let table = self.store.names().resume_offset(self.shadows.shard);
        let forget = include_str!("../../sql/swap/delete_shadow_offsets.sql");
        let forget = of_offsets(forget, &table, &self.topic, &self.shadows)?;
        let sink = self.shadows.sink.name();
        if let Some(statements) = OffsetStatements::new(&table, sink, &self.topic, updates)? {
            self.offsets.execute(statements.update).await?;
        }
        self.offsets.execute(forget).await?;
        self.offsets.execute("COMMIT".to_owned()).await?;
        Ok(())
    }
}

/// Adds the months that the live tables were given meanwhile.
async fn copy_months(
    store: &MessageStore,
    shadows: &Shadows,
    session: &mut Session,
) -> Result<(), StoreError> {
    if shadows.sink == Sink::Messages {
        for n in &shadows.tables {
            for kind in Table::BY_MONTH {
                schema::extend_shadow(store, kind, *n, session, Month::FIRST).await?;
            }
        }
    }
    Ok(())
}
