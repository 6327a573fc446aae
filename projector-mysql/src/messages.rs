use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use message_store::{MessageRow, MessageStore, Shard, Sink as StoreSink};
use projection::{LogEvent, Position, Sink, SinkError, Slice};
use schemas::{Partition, event::Body};

use crate::{
    ledger::{Ledger, position_of, resume_of},
    metrics::Batch,
    outcome::sink_error,
};

/// What a row weighs beside its text, about.
const ROW_BYTES: usize = 160;

/// Writes the messages of one database, each once: an INSERT that nothing may repeat, with offsets that say so.
pub(crate) struct MessagesSink {
    store: MessageStore,
    shard: Shard,
    topic: String,
    ledger: Ledger,
    rows: Vec<MessageRow>,
    bytes: usize,
    verify_every: Duration,
    verified: Instant,
}

impl MessagesSink {
    pub(crate) fn new(
        store: MessageStore,
        shard: Shard,
        topic: String,
        verify_every: Duration,
    ) -> Self {
        Self {
            store,
            shard,
            topic,
            ledger: Ledger::default(),
            rows: Vec::new(),
            bytes: 0,
            verify_every,
            verified: Instant::now(),
        }
    }

    fn drop_rows_of(&mut self, partitions: &[Partition]) {
        self.rows
            .retain(|row| !partitions.contains(&Partition::of(row.message.conversation())));
        self.bytes = self.rows.iter().map(weight).sum();
    }

    async fn compare(&mut self) -> Result<(), SinkError> {
        let partitions = self.ledger.partitions();
        let found = self
            .store
            .read_resume(self.shard, StoreSink::Messages, &self.topic, &partitions)
            .await
            .map_err(sink_error)?;
        self.verified = Instant::now();
        match self.ledger.contradicted_by(&found) {
            Some(partition) => Err(SinkError::Moved(format!(
                "database {} stands elsewhere in partition {partition}",
                self.shard.get()
            ))),
            None => Ok(()),
        }
    }
}

impl Sink for MessagesSink {
    async fn resume(
        &mut self,
        partitions: &[Partition],
    ) -> Result<BTreeMap<Partition, Position>, SinkError> {
        let found = self
            .store
            .read_resume(self.shard, StoreSink::Messages, &self.topic, partitions)
            .await
            .map_err(sink_error)?;
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

    async fn flush(&mut self) -> Result<(), SinkError> {
        let moves = self.ledger.moves();
        let batch = Batch::begin(StoreSink::Messages, self.shard, self.rows.len());
        let outcome = self
            .store
            .write_messages(self.shard, &self.topic, &self.rows, &moves)
            .await;
        batch.end(&outcome);
        outcome.map_err(sink_error)?;
        self.ledger.moved();
        self.rows.clear();
        self.bytes = 0;
        // The move speaks for the partitions that moved only, and a busy lane is never idle.
        if self.verified.elapsed() >= self.verify_every {
            self.compare().await?;
        }
        Ok(())
    }

    async fn verify(&mut self) -> Result<(), SinkError> {
        self.compare().await
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
