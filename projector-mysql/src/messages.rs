use message_store::{ChangeRow, GroupRows, MessageRow};
use projection::{Coverage, EventBatch, LogEvent, Sink, SinkError};
use schemas::{LogPosition, MessageChange, Partition, PartitionMap, event::Body};

use crate::{destination::Destination, groups, metrics, offsets::Offsets, severity::sink_error};

/// What a row takes beside its text, about.
const ROW_BYTES: usize = 160;

/// Inserts the messages of one database, direct and in groups, and what changes in them, each exactly once: rows and resume offsets are one
/// transaction. Settings and members of groups go along.
pub(crate) struct MessagesSink {
    destination: Destination,
    offsets: Offsets,
    rows: Vec<MessageRow>,
    /// In the order of each partition's log.
    changes: Vec<ChangeRow>,
    groups: GroupRows,
    bytes: usize,
}

impl MessagesSink {
    pub(crate) fn new(destination: Destination) -> Self {
        Self {
            destination,
            offsets: Offsets::default(),
            rows: Vec::new(),
            changes: Vec::new(),
            groups: GroupRows::default(),
            bytes: 0,
        }
    }

    fn drop_rows_of(&mut self, partitions: &[Partition]) {
        self.rows
            .retain(|row| !partitions.contains(&row.message.conversation().partition()));
        self.changes
            .retain(|row| !partitions.contains(&row.change.conversation().partition()));
        self.groups.forget(partitions);
        let texts = self.rows.iter().map(|row| row.message.msg.len());
        let edits = self.changes.iter().map(|row| text_of(&row.change).len());
        let of_groups = self.groups.messages.iter().map(|row| row.msg.len());
        let texts = texts.chain(edits).chain(of_groups);
        let others = self.groups.len() - self.groups.messages.len();
        self.bytes = texts.map(|text| text + ROW_BYTES).sum::<usize>() + others * ROW_BYTES;
    }
}

impl Sink for MessagesSink {
    async fn resume(
        &mut self,
        partitions: &[Partition],
    ) -> Result<PartitionMap<LogPosition>, SinkError> {
        let found = self.destination.read_offsets(partitions).await?;
        self.drop_rows_of(partitions);
        self.offsets.reset(found.clone());
        Ok(found.into_iter().collect())
    }

    fn absorb(&mut self, batch: EventBatch) {
        for LogEvent { offset: id, event } in batch.events {
            let ts = event.ts;
            match event.body {
                Body::Message(message) => {
                    self.bytes += message.msg.len() + ROW_BYTES;
                    self.rows.push(MessageRow::new(id, ts, message));
                }
                Body::MessageChange(change) => {
                    self.bytes += text_of(&change).len() + ROW_BYTES;
                    self.changes.push(ChangeRow { id, ts, change });
                }
                Body::Group(event) => {
                    self.bytes += groups::absorb(&mut self.groups, id, ts, event) + ROW_BYTES;
                }
                Body::ReadPosition(_)
                | Body::ContactChange(_)
                | Body::Control(_)
                | Body::Progress
                | Body::Profile(_) => {}
            }
        }
        self.offsets.advance(batch.partition, batch.end);
    }

    fn pending(&self) -> usize {
        self.bytes
    }

    async fn flush(&mut self) -> Result<Coverage, SinkError> {
        let updates = self.offsets.updates();
        let (to, groups) = (&self.destination, &self.groups);
        let direct = (self.rows.as_slice(), self.changes.as_slice());
        let count = direct.0.len() + direct.1.len() + groups.len();
        let (store, topic) = (&to.store, &to.topic);
        let write = store.write_messages_and_groups(to.shard, topic, direct, groups, &updates);
        let outcome = metrics::measure(to, count, write).await;
        outcome.map_err(sink_error)?;
        self.offsets.committed();
        self.rows.clear();
        self.changes.clear();
        self.groups = GroupRows::default();
        self.bytes = 0;
        Ok(Coverage::Whole)
    }

    async fn verify(&mut self) -> Result<Coverage, SinkError> {
        self.destination.verify(&self.offsets).await?;
        Ok(Coverage::Whole)
    }

    fn release(&mut self, partitions: &[Partition]) {
        self.drop_rows_of(partitions);
        self.offsets.forget(partitions);
    }
}

fn text_of(change: &MessageChange) -> &str {
    change.change.msg().unwrap_or_default()
}
