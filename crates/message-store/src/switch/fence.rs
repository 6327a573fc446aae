use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use schemas::{LogPosition, PartitionMap};
use sqlx::Row as _;

use super::{
    Shadows, of_offsets,
    shadows::{settle, tables_of},
};
use crate::{
    MessageStore, Month, OffsetUpdate, Sink, StoreError,
    names::Table,
    read::decode,
    resume::{self, OffsetStatements, insert_starts},
    schema::{self, SchemaLock},
    session::{Session, WRITE_BEGIN},
};

/// How long a RENAME waits for those who read the table: new readers wait behind it.
const RENAME_PATIENCE: &str = "SET @usual = @@lock_wait_timeout, SESSION lock_wait_timeout = 2";
const USUAL_PATIENCE: &str = "SET SESSION lock_wait_timeout = @usual";

/// What the server says of its transactions is up to 100 ms old.
const LOOK_EVERY: Duration = Duration::from_millis(150);

/// Holds back whoever writes the live tables that shadows stand for: writers move their offsets before they touch a row, and those
/// are locked here. The server lifts it after 10 s in which nothing was heard of the holder.
#[derive(Debug)]
pub struct Fence {
    store: MessageStore,
    shadows: Shadows,
    topic: String,
    offsets: Session,
    /// Keeps months from being added to the one table and not to the other.
    schema: SchemaLock,
    live: PartitionMap<LogPosition>,
    since: Instant,
}

impl Fence {
    /// Puts it up, once writers that are under way are done.
    ///
    /// # Errors
    /// As all writes.
    pub async fn raise(
        store: &MessageStore,
        shadows: &Shadows,
        topic: &str,
    ) -> Result<Self, StoreError> {
        let mut schema = SchemaLock::take(store, shadows.shard).await?;
        keep_months(store, shadows, &mut schema.session).await?;
        schema.session.execute(RENAME_PATIENCE.to_owned()).await?;
        let mut offsets = store.session(shadows.shard).await?;
        // Until the end an error closes the connection, and the server rolls back.
        offsets.close_unless_released();
        let table = store.names().resume_offset(shadows.shard);
        offsets.execute(WRITE_BEGIN.to_owned()).await?;
        let starts = insert_starts(&table, shadows.sink.name(), topic, &shadows.partitions);
        offsets.execute(starts).await?;
        let since = Instant::now();
        let standing = include_str!("../../sql/switch/standing.sql");
        let standing = of_offsets(standing, &table, topic, shadows)?;
        let rows = offsets.fetch_text(standing).await?;
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

    /// Where the live tables stand, and stay.
    #[must_use]
    pub fn live(&self) -> &PartitionMap<LogPosition> {
        &self.live
    }

    /// Makes sure that it still stands, and keeps it up.
    ///
    /// # Errors
    /// Transient where it was lost.
    pub async fn hold(&mut self) -> Result<(), StoreError> {
        self.offsets.execute("DO 0".to_owned()).await?;
        Ok(())
    }

    /// Waits until nobody has a snapshot from before now: a RENAME does not tell its owner, who would see in the new tables what
    /// was in them back then.
    ///
    /// # Errors
    /// Transient where one stays open for longer than `patience`.
    pub async fn outlast_snapshots(&mut self, patience: Duration) -> Result<(), StoreError> {
        let deadline = Instant::now() + patience;
        tokio::time::sleep(LOOK_EVERY).await;
        let mut older = self.snapshots().await?;
        while !older.is_empty() {
            if Instant::now() > deadline {
                let threads: Vec<String> = older.iter().map(|(id, _)| id.to_string()).collect();
                return Err(StoreError::transient(format!(
                    "snapshots stay open for too long, of the connections {}",
                    threads.join(", ")
                )));
            }
            tokio::time::sleep(LOOK_EVERY).await;
            let open = self.snapshots().await?;
            older.retain(|snapshot| open.contains(snapshot));
        }
        Ok(())
    }

    /// Connections with a snapshot, and since when.
    async fn snapshots(&mut self) -> Result<BTreeSet<(i64, String)>, StoreError> {
        let sql = include_str!("../../sql/switch/snapshots.sql").to_owned();
        let rows = self.offsets.fetch_text(sql).await?;
        let snapshot = |row: &sqlx::mysql::MySqlRow| {
            let bytes: Vec<u8> = row.try_get_unchecked("started")?;
            let started = String::from_utf8_lossy(&bytes).into_owned();
            Ok((row.try_get("thread")?, started))
        };
        rows.iter().map(snapshot).collect()
    }

    /// Puts the shadows, which stand at `built`, into the place of the live tables, all at one moment, and lifts the fence; for how long
    /// it stood. Offsets that are not the shadows' are moved to them.
    ///
    /// # Errors
    /// Fatal where the shadows are behind the live tables. After a transient one they may be in place nevertheless: look for
    /// shadows again.
    pub async fn switch(
        mut self,
        built: &PartitionMap<LogPosition>,
    ) -> Result<Duration, StoreError> {
        let moves = self.moves(built)?;
        let renames = self.renames().await?;
        self.hold().await?;
        self.schema.session.execute(renames).await?;
        let settled = self.settle(&moves).await;
        if let Err(error) = settled {
            tracing::warn!(%error, "the fence was lost at the switch; offsets are put right");
            settle(
                &self.store,
                &self.shadows,
                &self.topic,
                &mut self.schema.session,
            )
            .await?;
        }
        let held = self.since.elapsed();
        let session = &mut self.schema.session;
        session.execute(USUAL_PATIENCE.to_owned()).await?;
        self.schema.release().await?;
        Ok(held)
    }

    /// How the live offsets follow.
    fn moves(&self, built: &PartitionMap<LogPosition>) -> Result<Vec<OffsetUpdate>, StoreError> {
        let mut moves = Vec::new();
        for (partition, from) in &self.live {
            let to = built.get(partition).copied().unwrap_or_default();
            if to.next < from.next {
                return Err(StoreError::fatal(format!(
                    "the new tables are behind the live ones in partition {partition}"
                )));
            }
            // At the same offset the watermark may be another, where the log went back since.
            if to != *from {
                moves.push(OffsetUpdate {
                    partition,
                    from: *from,
                    to,
                });
            }
        }
        let owned = self.shadows.own_their_offsets(self.store.layout());
        Ok(if owned { moves } else { Vec::new() })
    }

    /// One statement for all tables; one that is not there has no place to be taken.
    async fn renames(&mut self) -> Result<String, StoreError> {
        let there = tables_of(&self.store, self.shadows.shard, &mut self.schema.session).await?;
        let kind = Table::of(self.shadows.sink);
        let names = self.store.names();
        let mut renames = Vec::new();
        for n in &self.shadows.tables {
            let live = names.within(*n, &kind.name(*n));
            if there.contains(&kind.name(*n)) {
                renames.push(format!("{live} TO {}", names.within(*n, &kind.retired(*n))));
            }
            renames.push(format!("{} TO {live}", names.within(*n, &kind.shadow(*n))));
        }
        Ok(format!("RENAME TABLE {}", renames.join(", ")))
    }

    /// Moves the live offsets, forgets those of the shadows, and lets writers go on.
    async fn settle(&mut self, moves: &[OffsetUpdate]) -> Result<(), StoreError> {
        let table = self.store.names().resume_offset(self.shadows.shard);
        let forget = include_str!("../../sql/switch/forget.sql");
        let forget = of_offsets(forget, &table, &self.topic, &self.shadows)?;
        let feed = self.shadows.sink.name();
        if let Some(moves) = OffsetStatements::new(&table, feed, &self.topic, moves)? {
            self.offsets.execute(moves.update).await?;
        }
        self.offsets.execute(forget).await?;
        self.offsets.execute("COMMIT".to_owned()).await?;
        Ok(())
    }
}

/// Months that the live tables were given meanwhile.
async fn keep_months(
    store: &MessageStore,
    shadows: &Shadows,
    session: &mut Session,
) -> Result<(), StoreError> {
    if shadows.sink == Sink::Messages {
        for n in &shadows.tables {
            schema::extend_shadow(store, *n, session, Month::FIRST).await?;
        }
    }
    Ok(())
}
