//! The log of an environment, as read and written directly.

use std::{ops::ControlFlow, sync::Arc};

use anyhow::{Context as _, Result};
use event_log::{Admin, AppendRecord, Appender, KafkaConfig, LogReader, ProducerSettings};
use schemas::{
    InboundPosition, Partition, PartitionMap, TimestampMs,
    dead_letter::{DeadLetterRecord, Header, Origin, OriginalRecord, Reason},
    event::{Body, Event, Source, SourceOffset},
    topics::Topic,
};

/// The ends of the log's partitions.
pub type Ends = PartitionMap<i64>;

/// The largest record that is written: more than any service writes; the largest of theirs are chunks of snapshots.
const LARGEST_RECORD: usize = 1_000_000;

/// The log of an environment.
pub struct EventLog {
    config: KafkaConfig,
    reader: Arc<LogReader>,
}

impl EventLog {
    pub(crate) fn new(brokers: String) -> Result<Self> {
        let config = KafkaConfig {
            brokers,
            ..KafkaConfig::default()
        };
        Ok(Self {
            reader: Arc::new(LogReader::new(&config)?),
            config,
        })
    }

    /// The configuration to reach the log.
    #[must_use]
    pub fn config(&self) -> &KafkaConfig {
        &self.config
    }

    /// One above the last record of each partition.
    ///
    /// # Errors
    /// If Kafka does not answer.
    pub async fn ends(&self) -> Result<Ends> {
        Ok(self.reader.ends(Topic::Events).await?)
    }

    /// The newest record of each partition of `chat.inbound` that is not empty.
    ///
    /// # Errors
    /// If Kafka does not answer.
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

    /// Drops the records of a partition below `offset`, as retention does.
    ///
    /// # Errors
    /// If Kafka does not answer.
    pub async fn delete_before(
        &self,
        topic: Topic,
        partition: Partition,
        offset: i64,
    ) -> Result<()> {
        let admin = Admin::new(&self.config)?;
        Ok(admin.delete_before(topic, partition, offset).await?)
    }

    /// Appends progress with this watermark to a partition of `chat.events`, as a raise of the source epoch does.
    ///
    /// # Errors
    /// If Kafka does not take it.
    pub async fn append_progress(
        &self,
        partition: Partition,
        watermark: SourceOffset,
    ) -> Result<()> {
        let event = Event {
            src: Source {
                offset: watermark,
                leader_epoch: -1,
            },
            ts: TimestampMs(0),
            body: Body::Progress,
            command: None,
            words: None,
        };
        let ts = Some(event.ts);
        let value = event.encode();
        self.append(Topic::Events, partition, ts, &value, &[])
            .await?;
        Ok(())
    }

    /// Appends a record to a partition of `chat.inbound`, bypassing ingest, as any program with access to Kafka could. Returns its position.
    ///
    /// # Errors
    /// If Kafka does not take it.
    pub async fn append_inbound(
        &self,
        partition: Partition,
        value: &[u8],
        headers: &[Header],
    ) -> Result<InboundPosition> {
        let offset = self
            .append(Topic::Inbound, partition, None, value, headers)
            .await?;
        Ok(InboundPosition { partition, offset })
    }

    /// Appends the dead letter of a record of `chat.inbound`.
    ///
    /// # Errors
    /// If Kafka does not take it.
    pub async fn append_dead_letter(
        &self,
        original: InboundPosition,
        value: &[u8],
        reason: Reason,
    ) -> Result<()> {
        let (topic, partition) = (self.config.topic(Topic::Inbound), original.partition);
        let origin = Origin::of_inbound(&topic, original);
        let original = OriginalRecord {
            value: Some(value),
            ..OriginalRecord::default()
        };
        let letter = DeadLetterRecord::new(&origin, reason, "as it says", &original);
        self.append(Topic::DeadLetters, partition, None, value, &letter.headers)
            .await?;
        Ok(())
    }

    /// Appends a value to any topic, as any program with access to Kafka could.
    ///
    /// # Errors
    /// If Kafka does not take it.
    pub async fn append_raw(&self, topic: Topic, partition: Partition, value: &[u8]) -> Result<()> {
        self.append(topic, partition, None, value, &[]).await?;
        Ok(())
    }

    async fn append(
        &self,
        topic: Topic,
        partition: Partition,
        timestamp: Option<TimestampMs>,
        value: &[u8],
        headers: &[Header],
    ) -> Result<i64> {
        let settings = ProducerSettings {
            max_message_bytes: LARGEST_RECORD,
            ..ProducerSettings::WITHOUT_TIMEOUT
        };
        let appender = Appender::new(&self.config, &settings)?;
        let record = AppendRecord {
            topic: &self.config.topic(topic),
            partition,
            key: b"",
            value: Some(value),
            timestamp,
            headers,
        };
        Ok(appender.append(record).await?)
    }

    /// Drops all records of a partition, as retention does.
    ///
    /// # Errors
    /// If Kafka does not answer.
    pub async fn delete_all_of(&self, topic: Topic, partition: Partition) -> Result<()> {
        let end = self.reader.ends(topic).await?[partition];
        self.delete_before(topic, partition, end).await
    }

    /// Drops all records of a topic, as retention does.
    ///
    /// # Errors
    /// If Kafka does not answer.
    pub async fn delete_all(&self, topic: Topic) -> Result<()> {
        for (partition, end) in self.reader.ends(topic).await? {
            self.delete_before(topic, partition, end).await?;
        }
        Ok(())
    }

    /// The value of the last record of each partition that is not empty.
    ///
    /// # Errors
    /// If Kafka does not answer.
    pub async fn newest_values(&self, topic: Topic) -> Result<PartitionMap<Vec<u8>>> {
        let ends = self.reader.ends(topic).await?;
        let last = |(partition, end): (Partition, i64)| (partition, (end - 1).max(0)..end);
        let ranges: Vec<_> = ends.into_iter().map(last).collect();
        let reader = Arc::clone(&self.reader);
        let scan = move || {
            let mut newest = PartitionMap::new();
            reader.scan(topic, &ranges, |record| {
                newest.insert(record.partition, record.bytes().to_vec());
                ControlFlow::Continue(())
            })?;
            Ok(newest)
        };
        tokio::task::spawn_blocking(scan).await?
    }

    /// The watermark of the last record of each partition of `chat.events` that is not empty.
    ///
    /// # Errors
    /// If Kafka does not answer, or a record is not an event.
    pub async fn last_watermarks(&self) -> Result<PartitionMap<SourceOffset>> {
        let ends = self.ends().await?;
        let last = ends.iter().map(|(p, end)| (p, (end - 1).max(0))).collect();
        let events = self.read(&last, &ends).await?;
        let watermarks = events.into_iter();
        Ok(watermarks.map(|(p, event)| (p, event.src.offset)).collect())
    }

    /// The events between two ends, without progress.
    ///
    /// # Errors
    /// If Kafka does not answer, or a record is not an event.
    pub async fn decisions(&self, from: &Ends, to: &Ends) -> Result<Vec<Event>> {
        let events = self.read(from, to).await?.into_iter();
        let decided = events.filter(|(_, event)| !matches!(event.body, Body::Progress));
        Ok(decided.map(|(_, event)| event).collect())
    }

    async fn read(&self, from: &Ends, to: &Ends) -> Result<Vec<(Partition, Event)>> {
        let start = |partition| from.get(partition).copied().unwrap_or(0);
        let ranges: Vec<_> = to
            .iter()
            .map(|(partition, end)| (partition, start(partition)..*end))
            .collect();
        let reader = Arc::clone(&self.reader);
        let scan = move || {
            let mut events = Vec::new();
            reader.scan(Topic::Events, &ranges, |record| {
                let event = Event::parse(record.bytes(), record.timestamp);
                events.push(event.map(|event| (record.partition, event)));
                ControlFlow::Continue(())
            })?;
            let events: Result<Vec<_>, _> = events.into_iter().collect();
            events.context("a record of chat.events is no event")
        };
        tokio::task::spawn_blocking(scan).await?
    }
}
