use std::collections::BTreeMap;

use message_store::MessageRow;
use projection::{Coverage, LogEvent, Sink, SinkError, Slice};
use schemas::{LogPosition, Partition, event::Body};

use crate::{
    ledger::{Ledger, Place, position_of, resume_of},
    metrics::Batch,
    outcome::sink_error,
};

/// What a row weighs beside its text, about.
const ROW_BYTES: usize = 160;

/// Writes the messages of one database, each once: an INSERT that nothing may repeat, with offsets that say so.
pub(crate) struct MessagesSink {
    place: Place,
    ledger: Ledger,
    rows: Vec<MessageRow>,
    bytes: usize,
}

impl MessagesSink {
    pub(crate) fn new(place: Place) -> Self {
        Self {
            place,
            ledger: Ledger::default(),
            rows: Vec::new(),
            bytes: 0,
        }
    }

    fn drop_rows_of(&mut self, partitions: &[Partition]) {
        self.rows
            .retain(|row| !partitions.contains(&row.message.conversation().partition()));
        self.bytes = self.rows.iter().map(weight).sum();
    }
}

impl Sink for MessagesSink {
    async fn resume(
        &mut self,
        partitions: &[Partition],
    ) -> Result<BTreeMap<Partition, LogPosition>, SinkError> {
        let found = self.place.read(partitions).await?;
        self.drop_rows_of(partitions);
        self.ledger.remember(found.clone());
        Ok(found
            .into_iter()
            .map(|(partition, resume)| (partition, position_of(resume)))
            .collect())
    }

    fn absorb(&mut self, slice: Slice) {
        for event in slice.events {
            if let Some(row) = row_of(event) {
                self.bytes += weight(&row);
                self.rows.push(row);
            }
        }
        self.ledger.reach(slice.partition, resume_of(slice.behind));
    }

    fn pending(&self) -> usize {
        self.bytes
    }

    async fn flush(&mut self) -> Result<Coverage, SinkError> {
        let moves = self.ledger.moves();
        let Place {
            store,
            shard,
            sink,
            topic,
            ..
        } = &self.place;
        let batch = Batch::begin(*sink, *shard, self.rows.len());
        let outcome = store
            .write_messages(*shard, topic, &self.rows, &moves)
            .await;
        batch.end(&outcome);
        outcome.map_err(sink_error)?;
        self.ledger.moved();
        self.rows.clear();
        self.bytes = 0;
        Ok(Coverage::Whole)
    }

    async fn verify(&mut self) -> Result<Coverage, SinkError> {
        self.place.compare(&self.ledger).await?;
        Ok(Coverage::Whole)
    }

    fn release(&mut self, partitions: &[Partition]) {
        self.drop_rows_of(partitions);
        self.ledger.forget(partitions);
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

fn weight(row: &MessageRow) -> usize {
    row.message.msg.len() + ROW_BYTES
}
