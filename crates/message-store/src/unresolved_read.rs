//! Read positions that came without their ordinal (PROTOCOL R5), in `unresolved_read`: one for each read position of `contact_<n>` whose
//! ordinal is yet to be looked up.

use std::collections::BTreeSet;

use schemas::{
    DeviceClass, DirectConversation, InvalidValue, Mid, NextOffset, Ordinal, Partition,
    PartitionMap, TableNumber, UserId,
};
use sqlx::{Row as _, mysql::MySqlRow};

use crate::{
    ContactDelta, MessageStore, OffsetUpdate, ReadTx, Shard, Sink, StoreError,
    arguments::Arguments,
    multi_row::{Insert, MultiRow, Preparation},
    names::{Names, Table, shadow_sink_name},
    read::decode,
    session::WRITE_BEGIN,
};

/// A read position whose ordinal is yet to be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnresolvedRead {
    /// The reader.
    pub uid: UserId,
    /// The other user of the conversation.
    pub peer: UserId,
    /// The class of the reader's device.
    pub device: DeviceClass,
    /// The newest message read.
    pub mid: Mid,
    /// The ordinal is exact once the messages of the conversation's partition are stored up to here.
    pub messages_offset: NextOffset,
}

impl UnresolvedRead {
    /// The conversation of the read.
    #[must_use]
    pub fn conversation(&self) -> DirectConversation {
        DirectConversation::new(self.uid, self.peer)
    }

    /// The unresolved reads of a row that is written with these updates.
    fn of<'a>(
        row: &'a ContactDelta,
        updates: &'a [OffsetUpdate],
    ) -> impl Iterator<Item = Self> + 'a {
        DeviceClass::ALL.into_iter().filter_map(move |device| {
            let read = row.read[device];
            if read.ordinal.is_some() || read.mid == Mid::ZERO {
                return None;
            }
            let partition = DirectConversation::new(row.uid, row.peer).partition();
            let update = updates.iter().find(|one| one.partition == partition)?;
            Some(Self {
                uid: row.uid,
                peer: row.peer,
                device,
                mid: read.mid,
                messages_offset: update.to.next,
            })
        })
    }

    fn decode(row: &MySqlRow) -> Result<Self, StoreError> {
        let device: String = row.try_get("device")?;
        Ok(Self {
            uid: decode::number(row, "uid")?,
            peer: decode::number(row, "peer")?,
            device: device.parse().map_err(StoreError::fatal)?,
            mid: decode::number(row, "mid")?,
            messages_offset: NextOffset::new(row.try_get("messages_offset")?),
        })
    }

    fn fill(&self, template: &str) -> String {
        template
            .replace("{uid}", &self.uid.to_string())
            .replace("{peer}", &self.peer.to_string())
            .replace("{device}", self.device.as_str())
            .replace("{mid}", &self.mid.to_string())
    }
}

/// A row of `unresolved_read`, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredUnresolvedRead {
    /// `contacts`, or `contacts.new` of tables that are being built.
    pub sink: String,
    /// The reader.
    pub uid: i64,
    /// The other user of the conversation.
    pub peer: i64,
    /// The name of a class of devices.
    pub device: String,
    /// The newest message read.
    pub mid: i64,
    /// The partition of the conversation.
    pub partition: u8,
    /// The ordinal is exact once the messages of that partition are stored up to here.
    pub messages_offset: i64,
}

impl StoredUnresolvedRead {
    fn decode(row: &MySqlRow) -> Result<Self, StoreError> {
        Ok(Self {
            sink: row.try_get("sink")?,
            uid: row.try_get("uid")?,
            peer: row.try_get("peer")?,
            device: row.try_get("device")?,
            mid: row.try_get("mid")?,
            partition: row.try_get("partition_no")?,
            messages_offset: row.try_get("messages_offset")?,
        })
    }

    /// Whether the row belongs to tables that are being built.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.sink == shadow_sink_name(Sink::Contacts)
    }

    /// Parses the row; an error if no projection writes such a row.
    ///
    /// # Errors
    /// Fatal, with the column.
    pub fn read(&self) -> Result<UnresolvedRead, StoreError> {
        if self.sink != Sink::Contacts.name() {
            return Err(StoreError::fatal(format!("sink is {:?}", self.sink)));
        }
        let wrong = |column: &'static str| {
            move |error: InvalidValue| StoreError::fatal(format!("{column} {error}"))
        };
        let read = UnresolvedRead {
            uid: self.uid.try_into().map_err(wrong("uid"))?,
            peer: self.peer.try_into().map_err(wrong("peer"))?,
            device: self.device.parse().map_err(wrong("device"))?,
            mid: self.mid.try_into().map_err(wrong("mid"))?,
            messages_offset: NextOffset::new(self.messages_offset),
        };
        let right = read.conversation().partition();
        if self.partition != right.get() {
            return Err(StoreError::fatal(format!(
                "partition_no is {}, {right} is right",
                self.partition
            )));
        }
        Ok(read)
    }
}

/// The statements that store the unresolved reads of contacts.
pub(crate) fn statements<'a>(
    names: &Names,
    shard: Shard,
    rows: impl Iterator<Item = &'a &'a ContactDelta>,
    updates: &[OffsetUpdate],
) -> Result<Vec<MultiRow>, StoreError> {
    let open: Vec<UnresolvedRead> = rows
        .flat_map(|row| UnresolvedRead::of(row, updates))
        .collect();
    let insert = Insert {
        table: &names.unresolved_read(shard),
        columns: "sink, uid, peer, device, mid, partition_no, messages_offset",
        tail: include_str!("../sql/write/merge_unresolved_read.sql"),
        sizes: Preparation::Once,
    };
    let sink = names.sink_name(Sink::Contacts);
    insert.statements(&open, |arguments: Arguments, read| {
        Ok(arguments
            .with(sink.as_str())
            .with(read.uid.get())
            .with(read.peer.get())
            .with(read.device.as_str())
            .with(read.mid.get())
            .with(read.conversation().partition().get())
            .with(read.messages_offset.get()))
    })
}

impl ReadTx {
    /// The rows of `unresolved_read` after the first `skipped`, at most `limit`, by their primary key.
    pub async fn scan_unresolved_reads(
        &mut self,
        skipped: usize,
        limit: usize,
    ) -> Result<Vec<StoredUnresolvedRead>, StoreError> {
        let sql = include_str!("../sql/read/scan_unresolved_reads.sql")
            .replace("{limit}", &limit.to_string())
            .replace("{skipped}", &skipped.to_string());
        let table = self.names.unresolved_read(self.shard);
        self.fetch_once(&sql, &table, StoredUnresolvedRead::decode)
            .await
    }

    /// The users among `uids` with an unresolved read.
    pub async fn unresolved_readers(
        &mut self,
        uids: &[UserId],
    ) -> Result<BTreeSet<UserId>, StoreError> {
        if uids.is_empty() {
            return Ok(BTreeSet::new());
        }
        let uids: Vec<String> = uids.iter().map(ToString::to_string).collect();
        let sql = include_str!("../sql/read/unresolved_readers.sql")
            .replace("{sink}", &self.names.sink_name(Sink::Contacts))
            .replace("{uids}", &uids.join(", "));
        let table = self.names.unresolved_read(self.shard);
        let readers = self.fetch_once(&sql, &table, |row| decode::number(row, "uid"));
        Ok(readers.await?.into_iter().collect())
    }
}

impl MessageStore {
    /// Up to `limit` unresolved reads of a database after `after`, by uid, peer and device: all of them, or those of conversations whose messages are
    /// in the database `messages`.
    ///
    /// # Errors
    /// As all reads.
    pub async fn unresolved_reads(
        &self,
        shard: Shard,
        messages: Option<Shard>,
        after: Option<UnresolvedRead>,
        limit: usize,
    ) -> Result<Vec<UnresolvedRead>, StoreError> {
        let is_there = |partition: &Partition| {
            messages.is_none_or(|messages| self.layout().shard_of(*partition) == messages)
        };
        let partitions: Vec<String> = Partition::all()
            .filter(is_there)
            .map(|partition| partition.to_string())
            .collect();
        let template = include_str!("../sql/read/unresolved_reads.sql")
            .replace("{table}", &self.names().unresolved_read(shard))
            .replace("{sink}", &self.names().sink_name(Sink::Contacts))
            .replace("{partitions}", &partitions.join(", "))
            .replace("{limit}", &limit.to_string());
        let sql = match after {
            Some(after) => after.fill(&template),
            None => template
                .replace("{uid}", "-1")
                .replace("{peer}", "0")
                .replace("{device}", ""),
        };
        let rows = self.session(shard).await?.fetch_text(sql).await?;
        rows.iter().map(UnresolvedRead::decode).collect()
    }

    /// The lowest `messages_offset` of the unresolved reads of a database, by partition.
    ///
    /// # Errors
    /// As all reads.
    pub async fn oldest_unresolved_reads(
        &self,
        shard: Shard,
    ) -> Result<PartitionMap<i64>, StoreError> {
        let sql = include_str!("../sql/read/oldest_unresolved_reads.sql")
            .replace("{table}", &self.names().unresolved_read(shard))
            .replace("{sink}", &self.names().sink_name(Sink::Contacts));
        let rows = self.session(shard).await?.fetch_text(sql).await?;
        let mut oldest = PartitionMap::new();
        for row in &rows {
            let partition = i64::from(row.try_get::<u8, _>("partition_no")?);
            // A row of any other partition was not written by a projection.
            if let Ok(partition) = Partition::try_from(partition) {
                oldest.insert(partition, row.try_get("messages_offset")?);
            }
        }
        Ok(oldest)
    }

    /// Deletes the unresolved reads that no contact needs: a later position has made them needless, or no projection has written them. A user with
    /// such a read gets no count.
    ///
    /// # Errors
    /// As all reads and writes.
    pub async fn delete_stray_reads(&self, shard: Shard) -> Result<(), StoreError> {
        let table = self.names().unresolved_read(shard);
        let sink = self.names().sink_name(Sink::Contacts);
        let fill = |sql: &str| sql.replace("{table}", &table).replace("{sink}", &sink);
        let mut session = self.session(shard).await?;
        let numbers = self.layout().tables_of(shard);
        let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
        let misplaced = include_str!("../sql/write/delete_misplaced_reads.sql");
        session
            .execute(fill(misplaced).replace("{numbers}", &numbers.join(", ")))
            .await?;
        let of_readers = fill(include_str!("../sql/read/unresolved_tables.sql"));
        for row in session.fetch_text(of_readers).await? {
            let number: i64 = row.try_get("number")?;
            let number = TableNumber::try_from(number).map_err(StoreError::fatal)?;
            let contact = self.names().table(Table::Contact, number);
            for device in DeviceClass::ALL {
                let fill = |sql: &str| {
                    fill(sql)
                        .replace("{contact}", &contact)
                        .replace("{number}", &number.to_string())
                        .replace("{device}", device.as_str())
                };
                let strays = fill(include_str!("../sql/read/stray_reads.sql"));
                let delete = fill(include_str!("../sql/write/delete_stray_read.sql"));
                for stray in session.fetch_text(strays).await? {
                    let mut delete = delete.clone();
                    for column in ["uid", "peer", "mid"] {
                        let value: i64 = stray.try_get(column)?;
                        delete = delete.replace(&format!("{{{column}}}"), &value.to_string());
                    }
                    session.execute(delete).await?;
                }
            }
        }
        Ok(())
    }

    /// Fills in the ordinals of contacts that still have the position without one; `None` if the ordinal stays unknown. Deletes these unresolved
    /// reads, except those that a higher position has replaced.
    ///
    /// # Errors
    /// As all writes.
    pub async fn fill_unresolved_reads(
        &self,
        shard: Shard,
        found: &[(UnresolvedRead, Option<Ordinal>)],
    ) -> Result<(), StoreError> {
        let delete = include_str!("../sql/write/delete_unresolved_read.sql")
            .replace("{table}", &self.names().unresolved_read(shard))
            .replace("{sink}", &self.names().sink_name(Sink::Contacts));
        let mut session = self.session(shard).await?;
        // If a step before the end fails, the connection is closed, and the server rolls back.
        session.close_unless_released();
        session.execute(WRITE_BEGIN.to_owned()).await?;
        for (read, n) in found {
            if let Some(n) = n {
                let contact = self
                    .names()
                    .table(Table::Contact, TableNumber::of_user(read.uid));
                let update = include_str!("../sql/write/fill_unresolved_read.sql")
                    .replace("{contact}", &contact)
                    .replace("{n}", &n.get().to_string());
                session.execute(read.fill(&update)).await?;
            }
            session.execute(read.fill(&delete)).await?;
        }
        session.execute("COMMIT".to_owned()).await?;
        session.release();
        Ok(())
    }
}
