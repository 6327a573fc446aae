use std::{collections::BTreeMap, time::Duration};

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::{KafkaError, RDKafkaErrorCode},
};
use schemas::{Partition, topics::Topic};

use crate::{KafkaConfig, KafkaFault, NextOffset, Record, context::Named};

/// What a poll brought.
#[derive(Debug)]
pub enum Fetched {
    /// The next record of its partition.
    Record(Record),
    /// The partition has no more right now.
    Drained(Partition),
}

/// Why a poll brought nothing.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The position is no longer, or not yet, on the log. The caller's resume offset and the log disagree.
    #[error(
        "{partition:?} of {topic} cannot be read from offset {position}: the log holds {start} to {end}"
    )]
    OutOfRange {
        /// The topic's full name.
        topic: String,
        /// The partition.
        partition: Partition,
        /// Where reading was to go on.
        position: NextOffset,
        /// The first offset there is.
        start: i64,
        /// One above the last.
        end: i64,
    },
    /// Polling on may help: librdkafka retries by itself.
    #[error("{0}")]
    Transient(String),
    /// The client is no longer usable.
    #[error("{0}")]
    Fatal(String),
}

/// Reads partitions of one topic from given offsets, without a group. For one thread: that which polls also starts,
/// stops, pauses and resumes.
pub struct Fetcher {
    consumer: BaseConsumer<Named>,
    topic: String,
    /// Where each started partition goes on.
    positions: BTreeMap<Partition, NextOffset>,
}

impl Fetcher {
    /// Connects lazily.
    ///
    /// # Errors
    /// [`KafkaFault`] where librdkafka refuses a setting.
    pub fn new(config: &KafkaConfig, topic: Topic) -> Result<Self, KafkaFault> {
        let consumer = config
            // Manual assignment needs a group id all the same; nothing is ever committed under it.
            .consumer("tidemark-fetcher")
            .set("fetch.min.bytes", "1000000")
            .set("fetch.wait.max.ms", config.fetch_wait_ms.to_string())
            .set("queued.min.messages", "10000")
            .set("queued.max.messages.kbytes", "2048")
            .create_with_context(Named("fetcher"))
            .map_err(|e| KafkaFault::new("creating a fetcher", e))?;
        Ok(Self {
            consumer,
            topic: config.topic(topic),
            positions: BTreeMap::new(),
        })
    }

    /// Begins to read a partition at `next`; a partition that is being read is started anew there.
    ///
    /// # Errors
    /// [`KafkaFault`] where librdkafka refuses.
    pub fn start(&mut self, partition: Partition, next: NextOffset) -> Result<(), KafkaFault> {
        self.stop(partition)?;
        let mut list = TopicPartitionList::with_capacity(1);
        list.add_partition_offset(
            &self.topic,
            partition.get().into(),
            Offset::Offset(next.get()),
        )
        .and_then(|()| self.consumer.incremental_assign(&list))
        .map_err(|e| KafkaFault::new(format!("starting {partition:?} of {}", self.topic), e))?;
        self.positions.insert(partition, next);
        Ok(())
    }

    /// Ends reading a partition: none of its records comes after this.
    ///
    /// # Errors
    /// [`KafkaFault`] where librdkafka refuses.
    pub fn stop(&mut self, partition: Partition) -> Result<(), KafkaFault> {
        if self.positions.remove(&partition).is_none() {
            return Ok(());
        }
        self.consumer
            .incremental_unassign(&self.one(partition))
            .map_err(|e| KafkaFault::new(format!("stopping {partition:?} of {}", self.topic), e))
    }

    /// Holds a partition back; it goes on where it was after [`Self::resume`]. Polling must go on meanwhile.
    ///
    /// # Errors
    /// [`KafkaFault`] where librdkafka refuses.
    pub fn pause(&self, partition: Partition) -> Result<(), KafkaFault> {
        self.consumer
            .pause(&self.one(partition))
            .map_err(|e| KafkaFault::new(format!("pausing {partition:?}"), e))
    }

    /// Ends a pause.
    ///
    /// # Errors
    /// [`KafkaFault`] where librdkafka refuses.
    pub fn resume(&self, partition: Partition) -> Result<(), KafkaFault> {
        self.consumer
            .resume(&self.one(partition))
            .map_err(|e| KafkaFault::new(format!("resuming {partition:?}"), e))
    }

    /// Waits at most `timeout` for the next record of any started partition.
    ///
    /// # Errors
    /// [`FetchError`], see there for what to do.
    pub fn poll(&mut self, timeout: Duration) -> Result<Option<Fetched>, FetchError> {
        match self.consumer.poll(timeout) {
            None => Ok(None),
            Some(Ok(message)) => {
                let record = Record::from_message(&message);
                self.positions
                    .insert(record.partition, NextOffset::after(record.offset));
                Ok(Some(Fetched::Record(record)))
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => Ok(i64::from(partition)
                .try_into()
                .ok()
                .filter(|partition| self.positions.contains_key(partition))
                .map(Fetched::Drained)),
            Some(Err(error)) => Err(self.explain(&error)),
        }
    }

    fn explain(&self, error: &KafkaError) -> FetchError {
        use RDKafkaErrorCode as Code;
        match error {
            KafkaError::MessageConsumptionFatal(_) => FetchError::Fatal(error.to_string()),
            KafkaError::MessageConsumption(Code::OffsetOutOfRange | Code::AutoOffsetReset) => self
                .out_of_range()
                .unwrap_or_else(|| FetchError::Transient(error.to_string())),
            KafkaError::MessageConsumption(
                Code::TopicAuthorizationFailed | Code::GroupAuthorizationFailed,
            ) => FetchError::Fatal(error.to_string()),
            _ => FetchError::Transient(error.to_string()),
        }
    }

    /// rdkafka does not say whose position is out of range, so each is held against its log.
    fn out_of_range(&self) -> Option<FetchError> {
        self.positions.iter().find_map(|(&partition, &position)| {
            let (start, end) = self
                .consumer
                .fetch_watermarks(&self.topic, partition.get().into(), Duration::from_secs(5))
                .ok()?;
            let outside = position.get() < start || position.get() > end;
            outside.then(|| FetchError::OutOfRange {
                topic: self.topic.clone(),
                partition,
                position,
                start,
                end,
            })
        })
    }

    fn one(&self, partition: Partition) -> TopicPartitionList {
        let mut list = TopicPartitionList::with_capacity(1);
        list.add_partition(&self.topic, partition.get().into());
        list
    }
}
