//! Waiting for a MySQL sink: however many calls wait for one, it is looked at once at a time.

use std::{collections::BTreeMap, convert::Infallible, time::Duration};

use message_store::{MessageStore, Shard, Sink, StoreError};
use tokio::{
    sync::{Mutex, watch},
    time::sleep,
};

use crate::after::{Needed, Watermarks};

/// Between two looks at one sink.
const PAUSE: Duration = Duration::from_millis(5);

/// What was last seen of each sink of each database. It says when it is worth reading; what is then read says how far it reaches.
pub(crate) struct SharedLooks {
    store: MessageStore,
    events_topic: String,
    boards: BTreeMap<(Shard, Sink), Board>,
}

#[derive(Default)]
struct Board {
    watermarks: watch::Sender<Watermarks>,
    /// Held by the one call that looks, for all who wait.
    turn: Mutex<()>,
}

impl SharedLooks {
    pub(crate) fn new(store: &MessageStore, events_topic: &str) -> Self {
        let sinks = store
            .layout()
            .shards()
            .flat_map(|shard| Sink::ALL.map(|sink| (shard, sink)));
        Self {
            store: store.clone(),
            events_topic: events_topic.to_owned(),
            boards: sinks.map(|place| (place, Board::default())).collect(),
        }
    }

    /// Waits until the watermarks of a sink have been seen to reach `needed`.
    ///
    /// # Errors
    /// Those of a read.
    pub(crate) async fn reached(
        &self,
        shard: Shard,
        sink: Sink,
        needed: &Needed,
    ) -> Result<(), StoreError> {
        let board = &self.boards[&(shard, sink)];
        let mut shown = board.watermarks.subscribe();
        let reached = shown.wait_for(|watermarks| needed.beyond(watermarks).is_empty());
        tokio::select! {
            biased;
            _ = reached => Ok(()),
            Err(error) = self.keep_looking(shard, sink, board) => Err(error),
        }
    }

    async fn keep_looking(
        &self,
        shard: Shard,
        sink: Sink,
        board: &Board,
    ) -> Result<Infallible, StoreError> {
        let _turn = board.turn.lock().await;
        loop {
            let watermarks = self.look(shard, sink).await?;
            board.watermarks.send_if_modified(|shown| {
                let news = *shown != watermarks;
                *shown = watermarks;
                news
            });
            sleep(PAUSE).await;
        }
    }

    async fn look(&self, shard: Shard, sink: Sink) -> Result<Watermarks, StoreError> {
        let partitions: Vec<_> = self.store.layout().source_partitions(sink, shard).collect();
        let mut tx = self.store.snapshot(shard).await?;
        let resume = tx
            .resume_offsets(sink, &self.events_topic, &partitions)
            .await?;
        Ok(resume
            .into_iter()
            .map(|(p, at)| (p, at.watermark))
            .collect())
    }
}
