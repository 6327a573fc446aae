use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::{KafkaError, RDKafkaErrorCode},
};
use schemas::{NextOffset, Partition, topics::Topic};

use crate::{
    EventLogError, KafkaConfig, RecordRef,
    config::OwnSettings as _,
    context::{self, Named},
    kept::Kept,
};

/// How long a broker may take to say what a partition holds; the polling thread waits for it.
const ASK_PATIENCE: Duration = Duration::from_secs(2);
/// The shortest time between two rounds of asking.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// What a poll brought.
#[derive(Debug)]
pub enum Fetched<'a> {
    /// The next record of its partition, in librdkafka's memory.
    Record(RecordRef<'a>),
    /// The partition has no more right now.
    Drained(Partition),
    /// A broker did not have the partition's position for a while and has it again: reading goes on there. Leaders
    /// may have changed meanwhile, so what lies before need not be what was read.
    Resumed(Partition),
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
    /// Polling on may help: librdkafka or the fetcher tries again by itself.
    #[error("{0}")]
    Transient(String),
    /// The client is no longer usable.
    #[error("{0}")]
    Fatal(String),
}

/// A partition that was started.
struct Reading {
    /// Where it goes on.
    next: NextOffset,
    paused: bool,
}

/// Reads partitions of one topic from given offsets, without a group. For one thread: that which polls also starts,
/// stops, pauses and resumes.
pub struct Fetcher {
    consumer: Kept<BaseConsumer<Named>>,
    topic: String,
    reading: BTreeMap<Partition, Reading>,
    /// Partitions that librdkafka may have stopped reading, because a broker did not have their position.
    doubtful: BTreeSet<Partition>,
    ask_after: Instant,
    /// Partitions that are read on, to be told of.
    resumed: VecDeque<Partition>,
}

impl Fetcher {
    /// Connects lazily.
    ///
    /// # Errors
    /// [`EventLogError`] where librdkafka refuses a setting.
    pub fn new(config: &KafkaConfig, topic: Topic) -> Result<Self, EventLogError> {
        let consumer = config
            // Manual assignment needs a group id all the same; nothing is ever committed under it.
            .consumer("tidemark-fetcher")
            .own("fetch.min.bytes", "1000000")
            .own("fetch.wait.max.ms", config.fetch_wait_ms.to_string())
            .own("queued.min.messages", "10000")
            .own("queued.max.messages.kbytes", "2048")
            .create_with_context(Named("fetcher"))
            .map_err(|e| EventLogError::new("creating a fetcher", e))?;
        Ok(Self {
            consumer: Kept::new(consumer, &config.brokers),
            topic: config.topic(topic),
            reading: BTreeMap::new(),
            doubtful: BTreeSet::new(),
            ask_after: Instant::now(),
            resumed: VecDeque::new(),
        })
    }

    /// Begins to read a partition at `next`, not paused; a partition that is being read is started anew there.
    ///
    /// # Errors
    /// [`EventLogError`] where librdkafka refuses.
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

    /// Ends reading a partition: none of its records comes after this.
    ///
    /// # Errors
    /// [`EventLogError`] where librdkafka refuses.
    pub fn stop(&mut self, partition: Partition) -> Result<(), EventLogError> {
        // librdkafka keeps a pause beyond the assignment: the next start would read nothing.
        self.resume(partition)?;
        if self.reading.remove(&partition).is_none() {
            return Ok(());
        }
        self.doubtful.remove(&partition);
        self.resumed.retain(|resumed| *resumed != partition);
        self.consumer
            .incremental_unassign(&self.one(partition))
            .map_err(|e| EventLogError::new(format!("stopping {partition:?} of {}", self.topic), e))
    }

    /// Holds a partition back; it goes on where it was after [`Self::resume`]. Polling must go on meanwhile. One that
    /// was not started stays so.
    ///
    /// # Errors
    /// [`EventLogError`] where librdkafka refuses.
    pub fn pause(&mut self, partition: Partition) -> Result<(), EventLogError> {
        self.set_paused(partition, true)
    }

    /// Ends a pause, if there is one.
    ///
    /// # Errors
    /// [`EventLogError`] where librdkafka refuses.
    pub fn resume(&mut self, partition: Partition) -> Result<(), EventLogError> {
        self.set_paused(partition, false)
    }

    fn set_paused(&mut self, partition: Partition, pause: bool) -> Result<(), EventLogError> {
        let list = self.one(partition);
        let Some(reading) = self.reading.get_mut(&partition) else {
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

    /// Waits at most `timeout` for the next record of any started partition, and hands it to `take`, whose answer it gives;
    /// about 2 s longer while a broker is asked for the bounds of partitions whose position it did not have.
    ///
    /// # Errors
    /// [`FetchError`], see there for what to do; nothing was handed over then.
    pub fn poll<T>(
        &mut self,
        timeout: Duration,
        take: impl FnOnce(Fetched<'_>) -> T,
    ) -> Result<Option<T>, FetchError> {
        self.settle_doubts()?;
        if let Some(partition) = self.resumed.pop_front() {
            return Ok(Some(take(Fetched::Resumed(partition))));
        }
        match self.consumer.poll(timeout) {
            None => Ok(None),
            Some(Ok(message)) => {
                let record = RecordRef::of_message(&message);
                if let Some(reading) = self.reading.get_mut(&record.partition) {
                    reading.next = NextOffset::after(record.offset);
                }
                Ok(Some(take(Fetched::Record(record))))
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => Ok(i64::from(partition)
                .try_into()
                .ok()
                .filter(|partition| self.reading.contains_key(partition))
                .map(|partition| take(Fetched::Drained(partition)))),
            Some(Err(error)) => {
                self.explain(&error)?;
                let resumed = self.resumed.pop_front();
                Ok(resumed.map(|partition| take(Fetched::Resumed(partition))))
            }
        }
    }

    /// What is to be done about what a poll brought instead of a record.
    fn explain(&mut self, error: &KafkaError) -> Result<(), FetchError> {
        use RDKafkaErrorCode as Code;
        match error {
            KafkaError::MessageConsumptionFatal(_) => Err(FetchError::Fatal(error.to_string())),
            KafkaError::MessageConsumption(Code::OffsetOutOfRange | Code::AutoOffsetReset) => {
                // librdkafka has stopped reading a partition for good, and rdkafka does not say which.
                self.doubtful = self.reading.keys().copied().collect();
                self.settle_doubts()
            }
            KafkaError::MessageConsumption(
                Code::TopicAuthorizationFailed | Code::GroupAuthorizationFailed,
            ) => Err(FetchError::Fatal(context::explained(error))),
            _ => Err(FetchError::Transient(context::explained(error))),
        }
    }

    /// Asks what the doubtful partitions hold, until that is known: those whose position is on the log are read on.
    fn settle_doubts(&mut self) -> Result<(), FetchError> {
        if self.doubtful.is_empty() || Instant::now() < self.ask_after {
            return Ok(());
        }
        for partition in self.doubtful.clone() {
            if let Err(error) = self.settle(partition) {
                tracing::warn!(%error, topic = self.topic, "not read until its position is settled");
                self.ask_after = Instant::now() + ASK_EVERY;
                return Err(error);
            }
        }
        // A position that comes into doubt again at once is not asked for at once.
        self.ask_after = Instant::now() + ASK_EVERY;
        Ok(())
    }

    fn settle(&mut self, partition: Partition) -> Result<(), FetchError> {
        let Some(&Reading { next, paused }) = self.reading.get(&partition) else {
            self.doubtful.remove(&partition);
            return Ok(());
        };
        let (start, end) = self
            .consumer
            .fetch_watermarks(&self.topic, partition.get().into(), ASK_PATIENCE)
            .map_err(|e| FetchError::Transient(format!("bounds of {partition:?}: {e}")))?;
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
        self.resumed.push_back(partition);
        Ok(())
    }

    fn one(&self, partition: Partition) -> TopicPartitionList {
        let mut list = TopicPartitionList::with_capacity(1);
        list.add_partition(&self.topic, partition.get().into());
        list
    }
}
