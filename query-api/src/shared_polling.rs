//! Waiting for a MySQL sink. One of the calls that wait for a sink polls it for all.

use std::{collections::BTreeMap, convert::Infallible, time::Duration};

use message_store::{MessageStore, Shard, Sink, StoreError};
use tokio::{
    sync::{Mutex, watch},
    time::sleep,
};

use crate::after::{RequiredWatermarks, Watermarks};

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The newest known watermarks of every sink in every database. They show when a read is worth trying; the read itself decides.
pub(crate) struct SharedPolling {
    store: MessageStore,
    events_topic: String,
    sinks: BTreeMap<(Shard, Sink), SinkState>,
}

#[derive(Default)]
struct SinkState {
    watermarks: watch::Sender<Watermarks>,
    /// Held by the call that polls.
    polling: Mutex<()>,
}

impl SharedPolling {
    pub(crate) fn new(store: &MessageStore, events_topic: &str) -> Self {
        let sinks = store
            .layout()
            .shards()
            .flat_map(|shard| Sink::ALL.map(|sink| (shard, sink)));
        Self {
            store: store.clone(),
            events_topic: events_topic.to_owned(),
            sinks: sinks.map(|key| (key, SinkState::default())).collect(),
        }
    }

    /// Waits until the watermarks of a sink have reached `required`.
    ///
    /// # Errors
    /// Those of a read.
    pub(crate) async fn reached(
        &self,
        shard: Shard,
        sink: Sink,
        required: &RequiredWatermarks,
    ) -> Result<(), StoreError> {
        let state = &self.sinks[&(shard, sink)];
        let mut newest = state.watermarks.subscribe();
        let reached = newest.wait_for(|watermarks| required.missing_in(watermarks).is_empty());
        tokio::select! {
            biased;
            _ = reached => Ok(()),
            Err(error) = self.keep_polling(shard, sink, state) => Err(error),
        }
    }

    async fn keep_polling(
        &self,
        shard: Shard,
        sink: Sink,
        state: &SinkState,
    ) -> Result<Infallible, StoreError> {
        let _guard = state.polling.lock().await;
        loop {
            let watermarks = self.read(shard, sink).await?;
            state.watermarks.send_if_modified(|newest| {
                let is_modified = *newest != watermarks;
                *newest = watermarks;
                is_modified
            });
            sleep(POLL_INTERVAL).await;
        }
    }

    async fn read(&self, shard: Shard, sink: Sink) -> Result<Watermarks, StoreError> {
        let partitions: Vec<_> = self.store.layout().source_partitions(sink, shard).collect();
        let mut tx = self.store.snapshot(shard).await?;
        let resume = tx
            .resume_offsets(sink, &self.events_topic, &partitions)
            .await?;
        Ok(resume.into_iter().collect())
    }
}
