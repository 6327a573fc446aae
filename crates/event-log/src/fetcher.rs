use std::{
    collections::{BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::{KafkaError, RDKafkaErrorCode},
};
use schemas::{NextOffset, Partition, PartitionMap, topics::Topic};

use crate::{
    EventLogError, KafkaConfig, RecordRef,
    config::OwnSettings as _,
    context::{self, NamedContext},
    reconnect::ReconnectingClient,
};

/// How long a broker may take to return the offset range of a partition; the polling thread waits for it.
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
/// The shortest time between two rounds of such queries.
const QUERY_INTERVAL: Duration = Duration::from_millis(500);

/// What a poll returned.
#[derive(Debug)]
pub enum Fetched<'a> {
    /// The next record of its partition, in librdkafka's memory.
    Record(RecordRef<'a>),
    /// The partition has no more records right now.
    EndOfPartition(Partition),
    /// The partition's position was out of range for a while and is in range again: reading continues there. The leader may have changed and the log
    /// been truncated meanwhile, so earlier records need not be those that were read.
    BackInRange(Partition),
}

/// Why a poll failed.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The position is no longer, or not yet, on the log.
    #[error(
        "{partition:?} of {topic} cannot be read from offset {position}: the log holds {start} to {end}"
    )]
    OutOfRange {
        /// The topic's full name.
        topic: String,
        /// The partition out of range.
        partition: Partition,
        /// The offset to read next.
        position: NextOffset,
        /// The first offset on the log.
        start: i64,
        /// One above the last offset.
        end: i64,
    },
    /// Polling again may help: librdkafka or the fetcher retries by itself.
    #[error("{0}")]
    Transient(String),
    /// The client is no longer usable.
    #[error("{0}")]
    Fatal(String),
}

/// A partition that is being read.
struct Reading {
    next: NextOffset,
    paused: bool,
}

/// Reads partitions of one topic from given offsets, without a group. One thread polls, starts, stops, pauses
/// and resumes.
pub struct Fetcher {
    consumer: ReconnectingClient<BaseConsumer<NamedContext>>,
    topic: String,
    reading: PartitionMap<Reading>,
    /// Partitions that librdkafka may have stopped reading because their position was out of range.
    suspect: BTreeSet<Partition>,
    query_after: Instant,
    /// Partitions to be reported as back in range.
    back_in_range: VecDeque<Partition>,
}

impl Fetcher {
    /// Connects lazily.
    ///
    /// # Errors
    /// [`EventLogError`] if librdkafka refuses a setting.
    pub fn new(config: &KafkaConfig, topic: Topic) -> Result<Self, EventLogError> {
        config.require_present("following a topic")?;
        let consumer = config
            // Manual assignment needs a group id, too; nothing is ever committed under it.
            .consumer("tidemark-fetcher")
            .own("fetch.min.bytes", "1000000")
            .own("fetch.wait.max.ms", config.fetch_wait_ms.to_string())
            .own("queued.min.messages", "10000")
            .own("queued.max.messages.kbytes", "2048")
            .create_with_context(NamedContext("fetcher"))
            .map_err(|e| EventLogError::new("creating a fetcher", e))?;
        Ok(Self {
            consumer: ReconnectingClient::new(consumer, &config.brokers),
            topic: config.topic(topic),
            reading: PartitionMap::new(),
            suspect: BTreeSet::new(),
            query_after: Instant::now(),
            back_in_range: VecDeque::new(),
        })
    }

    /// Starts reading a partition at `next`, not paused; a partition that is being read is restarted there.
    ///
    /// # Errors
    /// [`EventLogError`] if librdkafka refuses.
    pub fn start(&mut self, partition: Partition, next: NextOffset) -> Result<(), EventLogError> {
        self.stop(partition)?;
        let mut list = TopicPartitionList::with_capacity(1);
        list.add_partition_offset(
            &self.topic,
            partition.get().into(),
            Offset::Offset(next.get()),
        )
        .and_then(|()| self.consumer.incremental_assign(&list))
        .map_err(|e| EventLogError::new(format!("starting {partition:?} of {}", self.topic), e))?;
        let paused = false;
        self.reading.insert(partition, Reading { next, paused });
        Ok(())
    }

    /// Stops reading a partition: `poll` returns none of its records after this.
    ///
    /// # Errors
    /// [`EventLogError`] if librdkafka refuses.
    pub fn stop(&mut self, partition: Partition) -> Result<(), EventLogError> {
        // librdkafka keeps a pause beyond the assignment: the next start would read nothing.
        self.resume(partition)?;
        if self.reading.remove(partition).is_none() {
            return Ok(());
        }
        self.suspect.remove(&partition);
        self.back_in_range.retain(|back| *back != partition);
        self.consumer
            .incremental_unassign(&self.one(partition))
            .map_err(|e| EventLogError::new(format!("stopping {partition:?} of {}", self.topic), e))
    }

    /// Pauses a started partition until [`Self::resume`]. Polling must continue meanwhile.
    ///
    /// # Errors
    /// [`EventLogError`] if librdkafka refuses.
    pub fn pause(&mut self, partition: Partition) -> Result<(), EventLogError> {
        self.set_paused(partition, true)
    }

    /// Resumes a paused partition.
    ///
    /// # Errors
    /// [`EventLogError`] if librdkafka refuses.
    pub fn resume(&mut self, partition: Partition) -> Result<(), EventLogError> {
        self.set_paused(partition, false)
    }

    fn set_paused(&mut self, partition: Partition, pause: bool) -> Result<(), EventLogError> {
        let list = self.one(partition);
        let Some(reading) = self.reading.get_mut(partition) else {
            return Ok(());
        };
        if reading.paused == pause {
            return Ok(());
        }
        reading.paused = pause;
        let (done, what) = if pause {
            (self.consumer.pause(&list), "pausing")
        } else {
            (self.consumer.resume(&list), "resuming")
        };
        done.map_err(|e| EventLogError::new(format!("{what} {partition:?}"), e))
    }

    /// Waits at most `timeout` for the next record of any started partition, and returns the result of `take` for it. The call takes about 2 s longer
    /// while the offset ranges of partitions out of range are queried.
    ///
    /// # Errors
    /// [`FetchError`]; then `take` was not called.
    pub fn poll<T>(
        &mut self,
        timeout: Duration,
        take: impl FnOnce(Fetched<'_>) -> T,
    ) -> Result<Option<T>, FetchError> {
        self.check_positions()?;
        if let Some(partition) = self.back_in_range.pop_front() {
            return Ok(Some(take(Fetched::BackInRange(partition))));
        }
        match self.consumer.poll(timeout) {
            None => Ok(None),
            Some(Ok(message)) => {
                let record = RecordRef::of_message(&message);
                if let Some(reading) = self.reading.get_mut(record.partition) {
                    reading.next = NextOffset::after(record.offset);
                }
                Ok(Some(take(Fetched::Record(record))))
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => Ok(i64::from(partition)
                .try_into()
                .ok()
                .filter(|partition| self.reading.contains(*partition))
                .map(|partition| take(Fetched::EndOfPartition(partition)))),
            Some(Err(error)) => {
                self.handle_error(&error)?;
                let back_in_range = self.back_in_range.pop_front();
                Ok(back_in_range.map(|partition| take(Fetched::BackInRange(partition))))
            }
        }
    }

    fn handle_error(&mut self, error: &KafkaError) -> Result<(), FetchError> {
        use RDKafkaErrorCode as Code;
        match error {
            KafkaError::MessageConsumptionFatal(_) => Err(FetchError::Fatal(error.to_string())),
            KafkaError::MessageConsumption(Code::OffsetOutOfRange | Code::AutoOffsetReset) => {
                // librdkafka has stopped reading a partition, and rdkafka does not say which.
                self.suspect = self.reading.partitions().collect();
                self.check_positions()
            }
            KafkaError::MessageConsumption(
                Code::TopicAuthorizationFailed | Code::GroupAuthorizationFailed,
            ) => Err(FetchError::Fatal(context::explained(error))),
            _ => Err(FetchError::Transient(context::explained(error))),
        }
    }

    /// Queries the offset ranges of suspect partitions until they are known. Continues those whose position is in range.
    fn check_positions(&mut self) -> Result<(), FetchError> {
        if self.suspect.is_empty() || Instant::now() < self.query_after {
            return Ok(());
        }
        for partition in self.suspect.clone() {
            if let Err(error) = self.check_position(partition) {
                tracing::warn!(%error, topic = self.topic, "not read until its offset range is known");
                self.query_after = Instant::now() + QUERY_INTERVAL;
                return Err(error);
            }
        }
        // The next query waits, even if a position is out of range again at once.
        self.query_after = Instant::now() + QUERY_INTERVAL;
        Ok(())
    }

    fn check_position(&mut self, partition: Partition) -> Result<(), FetchError> {
        let Some(&Reading { next, paused }) = self.reading.get(partition) else {
            self.suspect.remove(&partition);
            return Ok(());
        };
        let (start, end) = self
            .consumer
            .fetch_watermarks(&self.topic, partition.get().into(), QUERY_TIMEOUT)
            .map_err(|e| FetchError::Transient(format!("offsets of {partition:?}: {e}")))?;
        if !(start..=end).contains(&next.get()) {
            return Err(FetchError::OutOfRange {
                topic: self.topic.clone(),
                partition,
                position: next,
                start,
                end,
            });
        }
        let fatal = |fault: EventLogError| FetchError::Fatal(fault.to_string());
        self.start(partition, next).map_err(fatal)?;
        self.set_paused(partition, paused).map_err(fatal)?;
        self.back_in_range.push_back(partition);
        Ok(())
    }

    fn one(&self, partition: Partition) -> TopicPartitionList {
        let mut list = TopicPartitionList::with_capacity(1);
        list.add_partition(&self.topic, partition.get().into());
        list
    }
}
