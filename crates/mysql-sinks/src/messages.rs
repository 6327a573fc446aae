use message_store::{ChangeRow, ConversationRows, MessageRow};
use projection::{Coverage, EventBatch, LogEvent, Sink, SinkError};
use schemas::{LogPosition, Partition, PartitionMap, event::Body};

use crate::{
    destination::Destination, groups, metrics, resume_offsets::ResumeOffsets, severity::sink_error,
};

/// The approximate memory of a row, without its text.
const ROW_BYTES: usize = 160;

/// Inserts the messages of one database, direct and in groups, and their changes, each exactly once: rows and resume offsets are one transaction.
/// Also writes settings and members of groups.
pub struct MessagesSink {
    destination: Destination,
    offsets: ResumeOffsets,
    rows: ConversationRows,
    bytes: usize,
}

impl MessagesSink {
    /// A sink with nothing pending.
    #[must_use]
    pub fn new(destination: Destination) -> Self {
        Self {
            destination,
            offsets: ResumeOffsets::default(),
            rows: ConversationRows::default(),
            bytes: 0,
        }
    }

    fn drop_rows_of(&mut self, partitions: &[Partition]) {
        self.rows.forget(partitions);
        let texts = self.rows.messages.iter().map(|row| row.msg.len());
        let changes = self
            .rows
            .changes
            .iter()
            .map(|row| row.change.content().len());
        let texts = texts.chain(changes);
        self.bytes = texts.sum::<usize>() + self.rows.len() * ROW_BYTES;
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
                    groups::message(&mut self.rows, id, ts, &message);
                    self.rows.messages.push(MessageRow::new(id, ts, message));
                }
                Body::MessageChange(change) => {
                    self.bytes += change.change.content().len() + ROW_BYTES;
                    groups::message_change(&mut self.rows, id, ts, &change);
                    self.rows.changes.push(ChangeRow::new(id, ts, change));
                }
                Body::GroupChange(change) => {
                    self.bytes += size_of_val(change.members.as_slice()) + ROW_BYTES;
                    groups::change(&mut self.rows, id, &change);
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
        let (to, rows) = (&self.destination, &self.rows);
        let (store, topic) = (&to.store, &to.topic);
        let write = store.write_messages(to.shard, topic, rows, &updates);
        let outcome = metrics::measure(to, rows.len(), write).await;
        outcome.map_err(sink_error)?;
        self.offsets.committed();
        self.rows = ConversationRows::default();
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
