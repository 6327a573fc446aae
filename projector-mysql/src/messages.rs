use message_store::MessageRow;
use projection::{Coverage, EventBatch, LogEvent, Sink, SinkError};
use schemas::{LogPosition, Partition, PartitionMap, event::Body};

use crate::{destination::Destination, metrics, offsets::Offsets, severity::sink_error};

/// What a row takes beside its text, about.
const ROW_BYTES: usize = 160;

/// Inserts the messages of one database, each exactly once: rows and resume offsets are one transaction.
pub(crate) struct MessagesSink {
    destination: Destination,
    offsets: Offsets,
    rows: Vec<MessageRow>,
    bytes: usize,
}

impl MessagesSink {
    pub(crate) fn new(destination: Destination) -> Self {
        Self {
            destination,
            offsets: Offsets::default(),
            rows: Vec::new(),
            bytes: 0,
        }
    }

    fn drop_rows_of(&mut self, partitions: &[Partition]) {
        self.rows
            .retain(|row| !partitions.contains(&row.message.conversation().partition()));
        self.bytes = self.rows.iter().map(size).sum();
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
        for event in batch.events {
            if let Some(row) = row_of(event) {
                self.bytes += size(&row);
                self.rows.push(row);
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
        let write = to.store.write_messages(to.shard, &to.topic, rows, &updates);
        let outcome = metrics::measure(to, rows.len(), write).await;
        outcome.map_err(sink_error)?;
        self.offsets.committed();
        self.rows.clear();
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

fn row_of(LogEvent { offset, event }: LogEvent) -> Option<MessageRow> {
    match event.body {
        Body::Message(message) => Some(MessageRow {
            id: offset,
            ts: event.ts,
            message,
        }),
        Body::ReadPosition(_) | Body::Control(_) | Body::Progress => None,
    }
}

fn size(row: &MessageRow) -> usize {
    row.message.msg.len() + ROW_BYTES
}
