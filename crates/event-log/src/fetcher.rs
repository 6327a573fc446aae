use std::{
    collections::{BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use rdkafka::{
    Message as _, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::{KafkaError, RDKafkaErrorCode},
    message::BorrowedMessage,
};
use schemas::{NextOffset, Partition, PartitionMap, topics::Topic};

use crate::{
    EventLogError, KafkaConfig, RecordRef,
    config::OwnSettings as _,
    context::{self, NamedContext},
    pace::{Asking, Pace},
    reconnect::ReconnectingClient,
};

/// How long a broker may take to return the offset range of a partition; the polling thread waits for it.
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a broker may hold back the answer to a long poll. A partition that is added waits for the answer to the request in flight, so no longer than
/// this.
pub(crate) const LONG_POLL: Duration = Duration::from_millis(500);
/// A consumer's first long poll may name only some of the partitions that are added together, and the others wait for its answer. For this long the consumer
/// that asks at intervals goes on beside it.
const WARM_UP: Duration = LONG_POLL.saturating_add(Duration::from_millis(50));
/// The shortest time between two rounds of queries of offset ranges.
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
    is_paused: bool,
    /// Whether the consumer has the partition since it was started last. The next poll sees to it that this is the opposite of `is_paused`: librdkafka's own
    /// pause would drop the records that it has, too, and would outlast the assignment.
    is_assigned: bool,
}

type Consumer = ReconnectingClient<BaseConsumer<NamedContext>>;

/// Reads partitions of one topic from given offsets, without a group: by long polls while records come one by one, once each
/// [`KafkaConfig::fetch_wait_ms`] while many come. One thread polls, starts, stops, pauses and resumes; the next poll carries out what was changed before it.
pub struct Fetcher {
    /// One for each way of asking, since the settings of a client of librdkafka cannot change. The consumer of `asking` has the partitions.
    consumers: [Consumer; 2],
    asking: Asking,
    /// Since when the consumer of long polls has the partitions, too, without being polled.
    warming_up: Option<Instant>,
    pace: Pace,
    topic: String,
    reading: PartitionMap<Reading>,
    /// Stopped and restarted partitions that the consumer still has.
    stopped: BTreeSet<Partition>,
    /// Whether the consumer's partitions may no longer be the wanted ones.
    is_changed: bool,
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
        let consumer = |min_bytes: &str, wait_ms: u128| -> Result<Consumer, EventLogError> {
            let consumer = config
                // Manual assignment needs a group id, too; nothing is ever committed under it.
                .consumer("tidemark-fetcher")
                .own("fetch.min.bytes", min_bytes)
                .own("fetch.wait.max.ms", wait_ms.to_string())
                .own("queued.min.messages", "10000")
                .own("queued.max.messages.kbytes", "2048")
                .create_with_context(NamedContext("fetcher"))
                .map_err(|e| EventLogError::new("creating a fetcher", e))?;
            Ok(ReconnectingClient::new(consumer, &config.brokers))
        };
        let interval = Duration::from_millis(config.fetch_wait_ms.into());
        let pace = Pace::new(interval, Instant::now());
        Ok(Self {
            consumers: [
                consumer("1", LONG_POLL.as_millis())?,
                consumer("1000000", interval.as_millis())?,
            ],
            asking: pace.asking(),
            warming_up: None,
            pace,
            topic: config.topic(topic),
            reading: PartitionMap::new(),
            stopped: BTreeSet::new(),
            is_changed: false,
            suspect: BTreeSet::new(),
            query_after: Instant::now(),
            back_in_range: VecDeque::new(),
        })
    }

    /// Starts reading a partition at `next`, not paused; a partition that is being read is restarted there.
    pub fn start(&mut self, partition: Partition, next: NextOffset) {
        self.stop(partition);
        let reading = Reading {
            next,
            is_paused: false,
            is_assigned: false,
        };
        self.reading.insert(partition, reading);
        self.is_changed = true;
    }

    /// Stops reading a partition: `poll` returns none of its records after this.
    pub fn stop(&mut self, partition: Partition) {
        self.take_back(partition);
        self.reading.remove(partition);
        self.suspect.remove(&partition);
        self.back_in_range.retain(|back| *back != partition);
    }

    /// Pauses or resumes a partition that is being read: `poll` returns no record of a paused one.
    pub fn set_paused(&mut self, partition: Partition, is_paused: bool) {
        if let Some(reading) = self.reading.get_mut(partition) {
            reading.is_paused = is_paused;
            self.is_changed |= reading.is_paused == reading.is_assigned;
        }
    }

    fn take_back(&mut self, partition: Partition) {
        if let Some(reading) = self.reading.get_mut(partition)
            && std::mem::take(&mut reading.is_assigned)
        {
            self.stopped.insert(partition);
            self.is_changed = true;
        }
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
        let fatal = |fault: EventLogError| FetchError::Fatal(fault.to_string());
        if std::mem::take(&mut self.is_changed) {
            self.assign_changes().map_err(fatal)?;
        }
        let waits = !timeout.is_zero();
        if waits {
            self.choose().map_err(fatal)?;
        }
        let consumer = &self.consumers[self.asking as usize];
        let polled = loop {
            match consumer.poll(timeout) {
                // The other consumer has returned this record already, while this consumer warmed up.
                Some(Ok(message)) if is_behind(&self.reading, &message) => {}
                polled => break polled,
            }
        };
        match polled {
            None => Ok(None),
            Some(Ok(message)) => {
                self.pace.took(waits);
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
        let Some(&Reading { next, .. }) = self.reading.get(partition) else {
            self.suspect.remove(&partition);
            return Ok(());
        };
        let (start, end) = self
            .consumer()
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
        self.take_back(partition);
        self.suspect.remove(&partition);
        self.back_in_range.push_back(partition);
        Ok(())
    }

    /// Carries out what was started, stopped, paused and resumed since the last poll, with two calls of librdkafka at most: each waits for its threads.
    fn assign_changes(&mut self) -> Result<(), EventLogError> {
        self.stop_warming_up()?;
        let mut taken_back = self.list(|reading| reading.is_assigned && reading.is_paused);
        for partition in std::mem::take(&mut self.stopped) {
            taken_back.add_partition(&self.topic, partition.get().into());
        }
        if taken_back.count() > 0 {
            let done = self.consumer().incremental_unassign(&taken_back);
            done.map_err(|e| self.not_assigned(e))?;
        }
        let added = self.list(|reading| !reading.is_assigned && !reading.is_paused);
        if added.count() > 0 {
            // At intervals, since a partition that is added waits for the answer to the request in flight.
            self.pace.hurry(Instant::now());
            self.ask(Asking::Intervals)?;
            let done = self.consumer().incremental_assign(&added);
            done.map_err(|e| self.not_assigned(e))?;
        }
        for reading in self.reading.values_mut() {
            reading.is_assigned = !reading.is_paused;
        }
        Ok(())
    }

    fn choose(&mut self) -> Result<(), EventLogError> {
        if self.pace.choose(Instant::now()) && self.warming_up.is_none() {
            // The other consumer has no partitions, but reports on its connections.
            let other = 1 - self.asking as usize;
            while self.consumers[other].poll(Duration::ZERO).is_some() {}
        }
        self.ask(self.pace.asking())
    }

    /// Lets the consumer for this way of asking read on; that of long polls takes over once it has warmed up. While a position has to be checked, nothing
    /// changes.
    fn ask(&mut self, asking: Asking) -> Result<(), EventLogError> {
        if !self.suspect.is_empty() {
            return Ok(());
        }
        match (asking, self.warming_up) {
            _ if asking == self.asking => return self.stop_warming_up(),
            (Asking::LongPolls, None) => {
                self.warming_up = Some(Instant::now());
                return self.assign_to(Asking::LongPolls);
            }
            (Asking::LongPolls, Some(since)) if since.elapsed() < WARM_UP => return Ok(()),
            (Asking::LongPolls, Some(_)) => self.warming_up = None,
            (Asking::Intervals, _) => self.assign_to(Asking::Intervals)?,
        }
        self.unassign_from(self.asking)?;
        self.asking = asking;
        Ok(())
    }

    fn stop_warming_up(&mut self) -> Result<(), EventLogError> {
        match self.warming_up.take() {
            Some(_) => self.unassign_from(Asking::LongPolls),
            None => Ok(()),
        }
    }

    fn assign_to(&self, asking: Asking) -> Result<(), EventLogError> {
        let list = self.list(|reading| reading.is_assigned && !reading.is_paused);
        let done = self.consumers[asking as usize].incremental_assign(&list);
        done.map_err(|e| self.not_assigned(e))
    }

    fn unassign_from(&self, asking: Asking) -> Result<(), EventLogError> {
        let consumer = &self.consumers[asking as usize];
        let done = consumer
            .assignment()
            .and_then(|all| consumer.incremental_unassign(&all));
        done.map_err(|e| self.not_assigned(e))
    }

    fn not_assigned(&self, error: KafkaError) -> EventLogError {
        EventLogError::new(format!("assigning partitions of {}", self.topic), error)
    }

    fn consumer(&self) -> &Consumer {
        &self.consumers[self.asking as usize]
    }

    /// Partitions with the offsets to read next.
    fn list(&self, is_wanted: impl Fn(&Reading) -> bool) -> TopicPartitionList {
        let mut list = TopicPartitionList::with_capacity(self.reading.len());
        for (partition, reading) in self.reading.iter() {
            if is_wanted(reading) {
                list.add_partition_offset(
                    &self.topic,
                    partition.get().into(),
                    Offset::Offset(reading.next.get()),
                )
                .expect("an offset of the log is one");
            }
        }
        list
    }
}

/// Whether the record was read already.
fn is_behind(reading: &PartitionMap<Reading>, message: &BorrowedMessage<'_>) -> bool {
    let partition = i64::from(message.partition()).try_into().ok();
    let reading = partition.and_then(|partition| reading.get(partition));
    reading.is_some_and(|reading| message.offset() < reading.next.get())
}
