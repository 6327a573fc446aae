use std::{
    iter,
    ops::{ControlFlow, Range},
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::{KafkaError, RDKafkaErrorCode},
};
use schemas::{OffsetRange, Partition, PartitionMap, SourceWatermark, TimestampMs, topics::Topic};

use crate::{
    EventLogError, KafkaConfig, Record,
    config::OwnSettings as _,
    context::NamedContext,
    reconnect::ReconnectingClient,
    scan::{Scan, Scanned, TopicSource},
};

/// How long a broker may take to answer, and a scan to find its next record.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How many records of [`LogReader::records`] may wait.
const READ_AHEAD: usize = 1_000;

/// How many lines of librdkafka's log are read if a broker does not answer: the reason is among the first.
const LOG_LINES: u32 = 20;

/// The pause before a query is repeated while leaders change.
const LEADER_PAUSE: Duration = Duration::from_millis(100);

/// How many records before an offset are read to know the watermark there. A repeat by a former owner counts as new only if this many events before it are
/// all such repeats.
const WATERMARK_LOOK_BACK: i64 = 1 << 16;

/// A scan of at most this many records of each partition is small.
const SMALL_SCAN: i64 = 64;

/// The fetch size of a small scan. A larger batch comes whole. With librdkafka's default of a megabyte it took more than a second to skip the
/// unwanted records of a backlog.
const BYTES_OF_SMALL_SCAN: &str = "65536";

/// Reads offset ranges of topics, and the records between two offsets. Its calls block; the `async` ones run on tokio's blocking
/// threads.
pub struct LogReader {
    config: KafkaConfig,
    small_scans: Scanner,
    large_scans: Scanner,
    query_client: ReconnectingClient<BaseConsumer<NamedContext>>,
}

/// A consumer for one scan at a time, since a scan assigns partitions, and the topics that it knows; created on first use.
type Scanner = Mutex<Option<(ReconnectingClient<BaseConsumer<NamedContext>>, Vec<Topic>)>>;

impl LogReader {
    /// Connects lazily.
    ///
    /// # Errors
    /// [`EventLogError`] if librdkafka refuses a setting.
    pub fn new(config: &KafkaConfig) -> Result<Self, EventLogError> {
        Ok(Self {
            config: config.clone(),
            small_scans: Scanner::default(),
            large_scans: Scanner::default(),
            query_client: consumer(config, None)?,
        })
    }

    /// The offsets of each of `partitions`; the result has all of them.
    ///
    /// # Errors
    /// [`EventLogError`] if a leader does not answer within 30 s, or not for every partition.
    pub fn bounds(
        &self,
        topic: Topic,
        partitions: &[Partition],
    ) -> Result<PartitionMap<OffsetRange>, EventLogError> {
        let starts = self.edges(topic, partitions, Offset::Beginning)?;
        let ends = self.edges(topic, partitions, Offset::End)?;
        Ok(starts
            .into_iter()
            .zip(ends)
            .map(|((partition, start), (_, end))| (partition, OffsetRange { start, end }))
            .collect())
    }

    /// One above the last offset of each of the 64 partitions.
    ///
    /// # Errors
    /// [`EventLogError`] if a leader does not answer within 30 s, or not for every partition.
    pub async fn ends(self: &Arc<Self>, topic: Topic) -> Result<PartitionMap<i64>, EventLogError> {
        self.blocking(move |reader| reader.ends_now(topic)).await
    }

    /// As [`Self::ends`]; blocks.
    pub(crate) fn ends_now(&self, topic: Topic) -> Result<PartitionMap<i64>, EventLogError> {
        let all: Vec<Partition> = Partition::all().collect();
        self.edges(topic, &all, Offset::End)
    }

    /// Runs blocking calls of the reader on a thread for blocking work.
    ///
    /// # Panics
    /// If `call` does.
    pub async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        call: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> T {
        let this = Arc::clone(self);
        tokio::task::spawn_blocking(move || call(&this))
            .await
            .expect("reading the log does not panic")
    }

    /// How many members a consumer group has right now.
    ///
    /// # Errors
    /// [`EventLogError`] if the cluster does not answer within 30 s.
    pub fn group_members(&self, group: &str) -> Result<usize, EventLogError> {
        let name = self.config.group(group);
        let groups = self
            .query_client
            .fetch_group_list(Some(&name), TIMEOUT)
            .map_err(|e| EventLogError::new(format!("asking for the members of {name}"), e))?;
        Ok(groups
            .groups()
            .iter()
            .filter(|group| group.name() == name)
            .map(|group| group.members().len())
            .sum())
    }

    /// The first offset of each partition whose record is at or after `ts`; the end if there is none.
    ///
    /// # Errors
    /// [`EventLogError`] if a leader does not answer within 30 s, or not for every partition.
    pub fn offsets_at(
        &self,
        topic: Topic,
        partitions: &[Partition],
        ts: TimestampMs,
    ) -> Result<PartitionMap<i64>, EventLogError> {
        let found = self.list_offsets(topic, partitions, Offset::Offset(ts.0.max(0)))?;
        let none: Vec<Partition> = found
            .iter()
            .filter(|(_, offset)| offset.is_none())
            .map(|(partition, _)| partition)
            .collect();
        let mut offsets = self.edges(topic, &none, Offset::End)?;
        offsets.extend(
            found
                .into_iter()
                .filter_map(|(partition, offset)| Some((partition, offset?))),
        );
        Ok(offsets)
    }

    /// The first offset of each partition, or the offset after its last. If `kafka.as_of` is set, the last is the last before that time, except in the topic
    /// of dead letters.
    fn edges(
        &self,
        topic: Topic,
        partitions: &[Partition],
        at: Offset,
    ) -> Result<PartitionMap<i64>, EventLogError> {
        let name = self.config.topic(topic);
        let mut edges: PartitionMap<i64> = self
            .list_offsets(topic, partitions, at)?
            .into_iter()
            .map(|(partition, offset)| {
                offset
                    .map(|offset| (partition, offset))
                    .ok_or_else(|| no_answer(&name, partition))
            })
            .collect::<Result<_, _>>()?;
        // A dead letter comes after its record, so it may have a later time.
        let is_cut = at == Offset::End && topic != Topic::DeadLetters;
        if let (true, Some(as_of)) = (is_cut, self.config.as_of()) {
            let from_then = Offset::Offset(as_of.0.max(0));
            for (partition, later) in self.list_offsets(topic, partitions, from_then)? {
                edges[partition] = edges[partition].min(later.unwrap_or(i64::MAX));
            }
        }
        Ok(edges)
    }

    /// ListOffsets takes a time, or −1 and −2 for the end and the start. librdkafka sends one request to each broker.
    fn list_offsets(
        &self,
        topic: Topic,
        partitions: &[Partition],
        at: Offset,
    ) -> Result<PartitionMap<Option<i64>>, EventLogError> {
        if partitions.is_empty() {
            return Ok(PartitionMap::new());
        }
        let name = self.config.topic(topic);
        let mut list = TopicPartitionList::with_capacity(partitions.len());
        let answer = partitions
            .iter()
            .try_for_each(|partition| list.add_partition_offset(&name, partition.get().into(), at))
            .and_then(|()| self.query_leaders(&list))
            .map_err(|e| EventLogError::new(format!("listing offsets of {name}"), e))?;
        offsets_of(&name, partitions, &answer)
    }

    /// Repeats the query while leaders change.
    fn query_leaders(&self, list: &TopicPartitionList) -> Result<TopicPartitionList, KafkaError> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let answer = self.query_client.offsets_for_times(list.clone(), left);
            if answer.is_err() {
                // No partition is assigned: each poll takes a line of librdkafka's log.
                for _ in 0..LOG_LINES {
                    let _ = self.query_client.poll(Duration::ZERO);
                }
            }
            if !leaders_change(&answer) || left <= LEADER_PAUSE {
                return answer;
            }
            thread::sleep(LEADER_PAUSE);
        }
    }

    /// Reads `ranges` and calls `visit` with every record, in order within a partition, until all are read or `visit` breaks. A removed record causes
    /// an error.
    ///
    /// # Errors
    /// [`EventLogError`] if nothing comes for 30 s, the client fails, or a part of a range is no longer on the log.
    pub fn scan(
        &self,
        topic: Topic,
        ranges: &[(Partition, Range<i64>)],
        mut visit: impl FnMut(Record) -> ControlFlow<()>,
    ) -> Result<(), EventLogError> {
        let mut gone = None;
        self.scan_remaining(topic, ranges, |scanned| match scanned {
            Scanned::Record(record) => visit(record),
            Scanned::Removed { partition, offsets } => {
                gone = Some((partition, offsets));
                ControlFlow::Break(())
            }
        })?;
        let Some((partition, Range { start, end })) = gone else {
            return Ok(());
        };
        let name = self.config.topic(topic);
        Err(EventLogError::new(
            format!(
                "reading {name}: offsets {start} to {end} of partition {partition} were removed meanwhile"
            ),
            KafkaError::MessageConsumption(RDKafkaErrorCode::OffsetOutOfRange),
        ))
    }

    /// As [`Self::scan`], but `visit` gets removed records as [`Scanned::Removed`].
    ///
    /// # Errors
    /// [`EventLogError`] if nothing comes for 30 s, the client fails, or the log ends before where a range begins.
    pub fn scan_remaining(
        &self,
        topic: Topic,
        ranges: &[(Partition, Range<i64>)],
        visit: impl FnMut(Scanned) -> ControlFlow<()>,
    ) -> Result<(), EventLogError> {
        let name = self.config.topic(topic);
        let fault = |e| EventLogError::new(format!("reading {name}"), e);
        let is_small = |(_, range): &(_, Range<i64>)| range.end - range.start <= SMALL_SCAN;
        let (scanner, bytes) = if ranges.iter().all(is_small) {
            (&self.small_scans, Some(BYTES_OF_SMALL_SCAN))
        } else {
            (&self.large_scans, None)
        };
        let mut made = scanner.lock();
        let (consumer, known) = match &mut *made {
            Some(made) => made,
            none => none.insert((consumer(&self.config, bytes)?, Vec::new())),
        };
        // If a topic is assigned before it is known, librdkafka asks for its leaders up to a second later.
        if !known.contains(&topic) {
            consumer
                .fetch_metadata(Some(&name), TIMEOUT)
                .map_err(fault)?;
            known.push(topic);
        }
        let source = TopicSource {
            consumer,
            topic: &name,
            timeout: TIMEOUT,
        };
        let done = Scan::new(source, ranges, TIMEOUT).run(visit).map_err(fault);
        consumer.unassign().map_err(fault)?;
        done
    }

    /// The records of a range, which a separate thread reads ahead, so that several topics can be read at the same time; a reader reads one range at a
    /// time.
    #[must_use]
    pub fn records(
        self: &Arc<Self>,
        topic: Topic,
        partition: Partition,
        range: Range<i64>,
    ) -> Box<dyn Iterator<Item = Result<Record, EventLogError>> + Send> {
        if range.is_empty() {
            return Box::new(iter::empty());
        }
        let (sender, receiver) = mpsc::sync_channel(READ_AHEAD);
        let reader = Arc::clone(self);
        thread::spawn(move || {
            let read = reader.scan(topic, &[(partition, range)], |record| {
                match sender.send(Ok(record)) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            });
            if let Err(fault) = read {
                // The receiver may be gone.
                let _ = sender.send(Err(fault));
            }
        });
        Box::new(receiver.into_iter())
    }

    /// The watermark of the records of `chat.events` before an offset, for a reader that begins there (PROTOCOL S10). Blocks.
    ///
    /// # Errors
    /// As [`Self::scan`].
    pub fn watermark_before(
        &self,
        partition: Partition,
        offset: i64,
    ) -> Result<SourceWatermark, EventLogError> {
        let OffsetRange { start, .. } = self.bounds(Topic::Events, &[partition])?[partition];
        let before = start.max(offset - WATERMARK_LOOK_BACK)..offset;
        let mut watermark = SourceWatermark::from_anywhere();
        self.scan(Topic::Events, &[(partition, before)], |record| {
            if let Ok(event) = record.event() {
                watermark.admit(event.src.offset);
            }
            ControlFlow::Continue(())
        })?;
        Ok(watermark)
    }

    /// The record at `offset`, if it is on the log.
    ///
    /// # Errors
    /// As [`Self::scan_remaining`].
    pub fn record(
        &self,
        topic: Topic,
        partition: Partition,
        offset: i64,
    ) -> Result<Option<Record>, EventLogError> {
        let OffsetRange { start, end } = self.bounds(topic, &[partition])?[partition];
        if !(start..end).contains(&offset) {
            return Ok(None);
        }
        let mut found = None;
        self.scan_remaining(topic, &[(partition, offset..offset + 1)], |scanned| {
            found = match scanned {
                Scanned::Record(record) => Some(record),
                Scanned::Removed { .. } => None,
            };
            ControlFlow::Break(())
        })?;
        Ok(found)
    }
}

fn consumer(
    config: &KafkaConfig,
    partition_bytes: Option<&str>,
) -> Result<ReconnectingClient<BaseConsumer<NamedContext>>, EventLogError> {
    let mut settings = config.consumer("tidemark-reader");
    settings
        .own("queued.max.messages.kbytes", "4096")
        // For a backlog in all partitions a response would have 50 MB by default.
        .set("fetch.max.bytes", "8388608")
        // A broker answers a connection's requests in order: a fetch that a scan left waiting at the end of the
        // log would hold up the next scan.
        .own("fetch.wait.max.ms", "5")
        // While its leaders change, a topic's metadata may say that it has no partitions; such metadata is used until it is this old.
        .set("metadata.max.age.ms", "5000")
        .set("topic.metadata.refresh.interval.ms", "2000");
    if let Some(bytes) = partition_bytes {
        settings.set("max.partition.fetch.bytes", bytes);
    }
    settings
        .create_with_context(NamedContext("reader"))
        .map(|consumer| ReconnectingClient::new(consumer, &config.brokers))
        .map_err(|e| EventLogError::new("creating a reader", e))
}

/// Whether an answer, or a part of it, says that the leader has changed, or that there is none for a moment.
fn leaders_change(answer: &Result<TopicPartitionList, KafkaError>) -> bool {
    use RDKafkaErrorCode as Code;
    let moves = |error: &KafkaError| {
        matches!(
            error.rdkafka_error_code(),
            Some(
                Code::NotLeaderForPartition
                    | Code::LeaderNotAvailable
                    | Code::FencedLeaderEpoch
                    | Code::UnknownLeaderEpoch
                    | Code::UnknownPartition
                    // A new leader does not know yet how far the log is committed: it might report an end below records that were read.
                    | Code::OffsetNotAvailable
            )
        )
    };
    match answer {
        Err(error) => moves(error),
        Ok(list) => {
            let elements = list.elements();
            elements
                .iter()
                .any(|element| element.error().is_err_and(|e| moves(&e)))
        }
    }
}

/// The offset of each of `partitions`; `None` if no record is at or after the time.
fn offsets_of(
    topic: &str,
    partitions: &[Partition],
    answer: &TopicPartitionList,
) -> Result<PartitionMap<Option<i64>>, EventLogError> {
    let answer_for = |partition: Partition| {
        let element = answer
            .find_partition(topic, partition.get().into())
            .ok_or_else(|| no_answer(topic, partition))?;
        element
            .error()
            .map_err(|e| EventLogError::new(format!("listing offsets of {topic}"), e))?;
        match element.offset() {
            Offset::Offset(offset) => Ok((partition, Some(offset))),
            Offset::End => Ok((partition, None)),
            _ => Err(no_answer(topic, partition)),
        }
    };
    partitions.iter().copied().map(answer_for).collect()
}

/// Without this, a partition without an answer would look empty.
fn no_answer(topic: &str, partition: Partition) -> EventLogError {
    EventLogError::new(
        format!("listing offsets of {topic}: no answer for partition {partition}"),
        KafkaError::OffsetFetch(RDKafkaErrorCode::NoOffset),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_answer_is_an_error_and_not_an_empty_log() {
        let [one, two]: [Partition; 2] = [1, 2].map(|n: i64| n.try_into().unwrap());
        let mut answer = TopicPartitionList::new();
        answer
            .add_partition_offset("t", 1, Offset::Offset(5))
            .unwrap();
        let told = offsets_of("t", &[one], &answer).unwrap();
        assert_eq!(told, [(one, Some(5))].into());
        let fault = offsets_of("t", &[one, two], &answer).unwrap_err();
        assert!(fault.to_string().contains("no answer for partition 2"));
        answer
            .add_partition_offset("t", 2, Offset::Invalid)
            .unwrap();
        assert!(offsets_of("t", &[one, two], &answer).is_err());
        let mut none = TopicPartitionList::new();
        none.add_partition_offset("t", 1, Offset::End).unwrap();
        assert_eq!(
            offsets_of("t", &[one], &none).unwrap(),
            [(one, None)].into()
        );
    }
}
