//! `chat.events`, as anyone could read it.

use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc};

use anyhow::{Context as _, Result};
use event_log::{KafkaConfig, LogReader};
use schemas::{
    InboundPosition, Partition,
    event::{Body, Event},
    topics::Topic,
};

/// The ends of its partitions.
pub type Ends = BTreeMap<Partition, i64>;

/// The sequenced log of a world.
pub struct EventLog {
    reader: Arc<LogReader>,
}

impl EventLog {
    pub(crate) fn new(kafka_port: u16) -> Result<Self> {
        let config = KafkaConfig {
            brokers: format!("127.0.0.1:{kafka_port}"),
            ..KafkaConfig::default()
        };
        Ok(Self {
            reader: Arc::new(LogReader::new(&config)?),
        })
    }

    /// One above the last record of each partition.
    ///
    /// # Errors
    /// Kafka does not answer.
    pub async fn ends(&self) -> Result<Ends> {
        Ok(self.reader.ends(Topic::Events).await?)
    }

    /// The newest record of each partition of `chat.inbound` that has any.
    ///
    /// # Errors
    /// Kafka does not answer.
    pub async fn newest_inbound(&self) -> Result<Vec<InboundPosition>> {
        let ends = self.reader.ends(Topic::Inbound).await?;
        let newest = ends
            .into_iter()
            .filter(|(_, end)| *end > 0)
            .map(|(partition, end)| InboundPosition {
                partition,
                offset: end - 1,
            });
        Ok(newest.collect())
    }

    /// What was decided between two ends, progress left out.
    ///
    /// # Errors
    /// Kafka does not answer, or a record is no event.
    pub async fn decisions(&self, from: &Ends, to: &Ends) -> Result<Vec<Event>> {
        let start = |partition| from.get(partition).copied().unwrap_or(0);
        let ranges: Vec<_> = to
            .iter()
            .map(|(partition, end)| (*partition, start(partition)..*end))
            .collect();
        let reader = Arc::clone(&self.reader);
        let scan = move || {
            let mut events = Vec::new();
            reader.scan(Topic::Events, &ranges, |record| {
                events.push(Event::parse(record.bytes(), record.timestamp));
                ControlFlow::Continue(())
            })?;
            let events: Result<Vec<Event>, _> = events.into_iter().collect();
            events.context("a record of chat.events is no event")
        };
        let mut events = tokio::task::spawn_blocking(scan).await??;
        events.retain(|event| !matches!(event.body, Body::Progress));
        Ok(events)
    }
}
