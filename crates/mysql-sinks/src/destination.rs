use std::collections::BTreeSet;

use message_store::{MessageStore, Shard, Sink};
use projection::SinkError;
use schemas::{LogPosition, Partition, PartitionMap, TableNumber};

use crate::{resume_offsets::ResumeOffsets, severity::sink_error};

/// The tables of one database that a sink writes.
#[derive(Clone)]
pub struct Destination {
    /// The store that the database is a part of.
    pub store: MessageStore,
    /// The database.
    pub shard: Shard,
    /// The kind of tables.
    pub sink: Sink,
    /// The full name of `chat.events`.
    pub topic: String,
    /// The tables to write; `None` for all tables of the database.
    pub tables: Option<BTreeSet<TableNumber>>,
}

impl Destination {
    /// A destination for each database, with all of its tables.
    pub fn all(store: &MessageStore, sink: Sink, topic: &str) -> Vec<Self> {
        let of_shard = |shard| Self {
            store: store.clone(),
            shard,
            sink,
            topic: topic.to_owned(),
            tables: None,
        };
        store.layout().shards().map(of_shard).collect()
    }

    pub(crate) fn has_table(&self, table: TableNumber) -> bool {
        let tables = self.tables.as_ref();
        self.store.layout().shard_of(table) == self.shard
            && tables.is_none_or(|tables| tables.contains(&table))
    }

    pub(crate) async fn read_offsets(
        &self,
        partitions: &[Partition],
    ) -> Result<PartitionMap<LogPosition>, SinkError> {
        self.store
            .read_resume_offsets(self.shard, self.sink, &self.topic, partitions)
            .await
            .map_err(sink_error)
    }

    /// Fails if the database's offsets are not those that `offsets` remembers.
    pub(crate) async fn verify(&self, offsets: &ResumeOffsets) -> Result<(), SinkError> {
        let found = self.read_offsets(&offsets.partitions()).await?;
        match offsets.first_difference(&found) {
            Some(partition) => Err(SinkError::Moved(format!(
                "database {} has another offset in partition {partition}",
                self.shard.get()
            ))),
            None => Ok(()),
        }
    }
}
