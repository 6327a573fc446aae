use std::{
    collections::BTreeMap,
    ops::{ControlFlow, Range},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::{KafkaError, RDKafkaErrorCode},
};
use schemas::{Partition, TimestampMs, topics::Topic};

use crate::{
    EventLogError, KafkaConfig, Record,
    config::OwnSettings as _,
    context::Named,
    kept::Kept,
    scan::{Scan, Scanned, TopicSource},
};

/// How long a broker may take to answer, and a scan to bring its next record.
const PATIENCE: Duration = Duration::from_secs(30);

/// How much of librdkafka's log is looked at when a broker does not answer: why is said at the beginning.
const LOG_LINES: u32 = 20;

/// How long a leader that was just elected gets before it is asked again.
const LEADER_PAUSE: Duration = Duration::from_millis(100);

/// What a partition holds: offsets from `start` up to but not including `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The first offset that is still there.
    pub start: i64,
    /// One above the last.
    pub end: i64,
}

/// Up to so many records of each partition are few.
const FEW: i64 = 64;

/// What a broker sends of a partition at a time where few records are wanted: the first of them, and whatever lies behind it. A
/// batch that is larger comes whole. Of a backlog, librdkafka's megabyte of each partition took more than a second to pass over.
const BYTES_OF_FEW: &str = "65536";

/// Looks into topics: how far they go, and what lies between two offsets. Its calls block; the `async` ones run on
/// tokio's blocking threads.
pub struct LogReader {
    config: KafkaConfig,
    few: Scanner,
    many: Scanner,
    asker: Kept<BaseConsumer<Named>>,
}

/// A consumer for one scan at a time, since a scan assigns; made when it is first wanted.
type Scanner = Mutex<Option<Kept<BaseConsumer<Named>>>>;

impl LogReader {
    /// Connects lazily.
    ///
    /// # Errors
    /// [`EventLogError`] where librdkafka refuses a setting.
    pub fn new(config: &KafkaConfig) -> Result<Self, EventLogError> {
        Ok(Self {
            config: config.clone(),
            few: Scanner::default(),
            many: Scanner::default(),
            asker: consumer(config, None)?,
        })
    }

    /// What each of `partitions` holds; every one of them is in the answer.
    ///
    /// # Errors
    /// [`EventLogError`] where a leader does not answer within 30 s, or not for every partition.
    pub fn bounds(
        &self,
        topic: Topic,
        partitions: &[Partition],
    ) -> Result<BTreeMap<Partition, Bounds>, EventLogError> {
        let starts = self.edges(topic, partitions, Offset::Beginning)?;
        let ends = self.edges(topic, partitions, Offset::End)?;
        Ok(starts
            .into_iter()
            .zip(ends)
            .map(|((partition, start), (_, end))| (partition, Bounds { start, end }))
            .collect())
    }

    /// One above the last offset of each of the 64 partitions.
    ///
    /// # Errors
    /// [`EventLogError`] where a leader does not answer within 30 s, or not for every partition.
    pub async fn ends(
        self: &Arc<Self>,
        topic: Topic,
    ) -> Result<BTreeMap<Partition, i64>, EventLogError> {
        let this = Arc::clone(self);
        let all: Vec<Partition> = Partition::all().collect();
        tokio::task::spawn_blocking(move || this.edges(topic, &all, Offset::End))
            .await
            .expect("listing offsets does not panic")
    }

    /// How many members a consumer group has right now.
    ///
    /// # Errors
    /// [`EventLogError`] where the cluster does not answer within 30 s.
    pub fn group_members(&self, group: &str) -> Result<usize, EventLogError> {
        let name = self.config.group(group);
        let groups = self
            .asker
            .fetch_group_list(Some(&name), PATIENCE)
            .map_err(|e| EventLogError::new(format!("asking for the members of {name}"), e))?;
        Ok(groups
            .groups()
            .iter()
            .filter(|group| group.name() == name)
            .map(|group| group.members().len())
            .sum())
    }

    /// The first offset of each partition whose record is at or after `ts`; the end where there is none.
    ///
    /// # Errors
    /// [`EventLogError`] where a leader does not answer within 30 s, or not for every partition.
    pub fn offsets_at(
        &self,
        topic: Topic,
        partitions: &[Partition],
        ts: TimestampMs,
    ) -> Result<BTreeMap<Partition, i64>, EventLogError> {
        let found = self.list_offsets(topic, partitions, Offset::Offset(ts.0.max(0)))?;
        let none: Vec<Partition> = found
            .iter()
            .filter(|(_, offset)| offset.is_none())
            .map(|(partition, _)| *partition)
            .collect();
        let mut offsets = self.edges(topic, &none, Offset::End)?;
        offsets.extend(
            found
                .into_iter()
                .filter_map(|(partition, offset)| Some((partition, offset?))),
        );
        Ok(offsets)
    }

    /// The first offset of each partition, or the one above its last.
    fn edges(
        &self,
        topic: Topic,
        partitions: &[Partition],
        at: Offset,
    ) -> Result<BTreeMap<Partition, i64>, EventLogError> {
        let name = self.config.topic(topic);
        self.list_offsets(topic, partitions, at)?
            .into_iter()
            .map(|(partition, offset)| {
                offset
                    .map(|offset| (partition, offset))
                    .ok_or_else(|| unanswered(&name, partition))
            })
            .collect()
    }

    /// ListOffsets takes −1 and −2 for the end and the start where it takes a time otherwise, and librdkafka asks
    /// each broker once for all its partitions.
    fn list_offsets(
        &self,
        topic: Topic,
        partitions: &[Partition],
        at: Offset,
    ) -> Result<BTreeMap<Partition, Option<i64>>, EventLogError> {
        if partitions.is_empty() {
            return Ok(BTreeMap::new());
        }
        let name = self.config.topic(topic);
        let mut list = TopicPartitionList::with_capacity(partitions.len());
        let answer = partitions
            .iter()
            .try_for_each(|partition| list.add_partition_offset(&name, partition.get().into(), at))
            .and_then(|()| self.ask_leaders(&list))
            .map_err(|e| EventLogError::new(format!("listing offsets of {name}"), e))?;
        offsets_of(&name, partitions, &answer)
    }

    /// Asks again while leaders change hands.
    fn ask_leaders(&self, list: &TopicPartitionList) -> Result<TopicPartitionList, KafkaError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let answer = self.asker.offsets_for_times(list.clone(), left);
            if answer.is_err() {
                // It reads nothing: this brings what librdkafka has logged, a line at a time.
                for _ in 0..LOG_LINES {
                    let _ = self.asker.poll(Duration::ZERO);
                }
            }
            if !leaders_move(&answer) || left <= LEADER_PAUSE {
                return answer;
            }
            std::thread::sleep(LEADER_PAUSE);
        }
    }

    /// Reads `ranges` (from included, to excluded) and hands every record to `visit`, in order within a partition,
    /// until all are read or `visit` breaks. For those who must see all of it.
    ///
    /// # Errors
    /// [`EventLogError`] where nothing comes for 30 s, the client fails, or some of it is no longer on the log.
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

    /// As [`Self::scan`], for those who can do without what retention takes meanwhile: `visit` is told of it.
    ///
    /// # Errors
    /// [`EventLogError`] where nothing comes for 30 s, the client fails, or the log ends before where a range begins.
    pub fn scan_remaining(
        &self,
        topic: Topic,
        ranges: &[(Partition, Range<i64>)],
        visit: impl FnMut(Scanned) -> ControlFlow<()>,
    ) -> Result<(), EventLogError> {
        let name = self.config.topic(topic);
        let fault = |e| EventLogError::new(format!("reading {name}"), e);
        let is_few = |(_, range): &(_, Range<i64>)| range.end - range.start <= FEW;
        let (scanner, bytes) = if ranges.iter().all(is_few) {
            (&self.few, Some(BYTES_OF_FEW))
        } else {
            (&self.many, None)
        };
        let mut made = scanner.lock().unwrap_or_else(PoisonError::into_inner);
        let consumer = match &mut *made {
            Some(consumer) => consumer,
            none => none.insert(consumer(&self.config, bytes)?),
        };
        let source = TopicSource {
            consumer,
            topic: &name,
            patience: PATIENCE,
        };
        let done = Scan::new(source, ranges, PATIENCE)
            .run(visit)
            .map_err(fault);
        consumer.unassign().map_err(fault)?;
        done
    }

    /// The record at `offset`, where it is still there.
    ///
    /// # Errors
    /// As [`Self::scan_remaining`].
    pub fn record(
        &self,
        topic: Topic,
        partition: Partition,
        offset: i64,
    ) -> Result<Option<Record>, EventLogError> {
        let Bounds { start, end } = self.bounds(topic, &[partition])?[&partition];
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
) -> Result<Kept<BaseConsumer<Named>>, EventLogError> {
    let mut settings = config.consumer("tidemark-reader");
    settings
        .own("queued.max.messages.kbytes", "4096")
        // A broker answers a connection's requests in order: a fetch that a scan left waiting at the end of the
        // log would hold up the next scan.
        .own("fetch.wait.max.ms", "5")
        // What was heard of a topic while its leaders changed may be that it has no partitions; nothing asks again
        // before it is this old.
        .set("metadata.max.age.ms", "5000")
        .set("topic.metadata.refresh.interval.ms", "2000");
    if let Some(bytes) = partition_bytes {
        settings.set("max.partition.fetch.bytes", bytes);
    }
    settings
        .create_with_context(Named("reader"))
        .map(|consumer| Kept::new(consumer, &config.brokers))
        .map_err(|e| EventLogError::new("creating a reader", e))
}

/// Whether an answer, or a part of it, says that somebody else leads than was known, or for a moment nobody.
fn leaders_move(answer: &Result<TopicPartitionList, KafkaError>) -> bool {
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

/// What each of `partitions` was answered; `None` where there is no record such as was asked for.
fn offsets_of(
    topic: &str,
    partitions: &[Partition],
    answer: &TopicPartitionList,
) -> Result<BTreeMap<Partition, Option<i64>>, EventLogError> {
    let answer_for = |partition: Partition| {
        let element = answer
            .find_partition(topic, partition.get().into())
            .ok_or_else(|| unanswered(topic, partition))?;
        element
            .error()
            .map_err(|e| EventLogError::new(format!("listing offsets of {topic}"), e))?;
        match element.offset() {
            Offset::Offset(offset) => Ok((partition, Some(offset))),
            Offset::End => Ok((partition, None)),
            _ => Err(unanswered(topic, partition)),
        }
    };
    partitions.iter().copied().map(answer_for).collect()
}

/// Without this, a partition that nothing is known of would pass for an empty one.
fn unanswered(topic: &str, partition: Partition) -> EventLogError {
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
