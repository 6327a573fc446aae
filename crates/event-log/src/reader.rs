use std::{
    collections::BTreeMap,
    ops::{ControlFlow, Range},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::{KafkaError, RDKafkaErrorCode},
};
use schemas::{Partition, TimestampMs, topics::Topic};

use crate::{KafkaConfig, KafkaFault, Record, context::Named};

/// How long a broker may take to answer, and a scan to bring its next record.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a partition holds: offsets from `start` up to but not including `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The first offset that is still there.
    pub start: i64,
    /// One above the last.
    pub end: i64,
}

/// Looks into topics: how far they go, and what lies between two offsets. Its calls block; the `async` ones run on
/// tokio's blocking threads.
pub struct LogReader {
    config: KafkaConfig,
    /// One scan at a time: a scan assigns.
    consumer: Mutex<BaseConsumer<Named>>,
    asker: BaseConsumer<Named>,
}

impl LogReader {
    /// Connects lazily.
    ///
    /// # Errors
    /// [`KafkaFault`] where librdkafka refuses a setting.
    pub fn new(config: &KafkaConfig) -> Result<Self, KafkaFault> {
        let create = || {
            config
                .consumer("tidemark-reader")
                .set("queued.max.messages.kbytes", "4096")
                // A broker answers a connection's requests in order: a fetch that a scan left waiting at the end of the
                // log would hold up the next scan.
                .set("fetch.wait.max.ms", "5")
                .create_with_context(Named("reader"))
                .map_err(|e| KafkaFault::new("creating a reader", e))
        };
        Ok(Self {
            config: config.clone(),
            consumer: Mutex::new(create()?),
            asker: create()?,
        })
    }

    /// What each of `partitions` holds.
    ///
    /// # Errors
    /// [`KafkaFault`] where a leader does not answer within 30 s.
    pub fn bounds(
        &self,
        topic: Topic,
        partitions: &[Partition],
    ) -> Result<BTreeMap<Partition, Bounds>, KafkaFault> {
        let starts = self.list_offsets(topic, partitions, Offset::Beginning)?;
        let ends = self.list_offsets(topic, partitions, Offset::End)?;
        Ok(starts
            .into_iter()
            .filter_map(|(partition, start)| {
                Some((
                    partition,
                    Bounds {
                        start,
                        end: *ends.get(&partition)?,
                    },
                ))
            })
            .collect())
    }

    /// One above the last offset of each of the 64 partitions.
    ///
    /// # Errors
    /// [`KafkaFault`] where a leader does not answer within 30 s.
    pub async fn ends(
        self: &Arc<Self>,
        topic: Topic,
    ) -> Result<BTreeMap<Partition, i64>, KafkaFault> {
        let this = Arc::clone(self);
        let all: Vec<Partition> = Partition::all().collect();
        tokio::task::spawn_blocking(move || this.list_offsets(topic, &all, Offset::End))
            .await
            .expect("listing offsets does not panic")
    }

    /// How many members a consumer group has right now.
    ///
    /// # Errors
    /// [`KafkaFault`] where the cluster does not answer within 30 s.
    pub fn group_members(&self, group: &str) -> Result<usize, KafkaFault> {
        let name = self.config.group(group);
        let groups = self
            .asker
            .fetch_group_list(Some(&name), PATIENCE)
            .map_err(|e| KafkaFault::new(format!("asking for the members of {name}"), e))?;
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
    /// [`KafkaFault`] where a leader does not answer within 30 s.
    pub fn offsets_at(
        &self,
        topic: Topic,
        partitions: &[Partition],
        ts: TimestampMs,
    ) -> Result<BTreeMap<Partition, i64>, KafkaFault> {
        let found = self.list_offsets(topic, partitions, Offset::Offset(ts.0.max(0)))?;
        if found.len() == partitions.len() {
            return Ok(found);
        }
        let mut offsets = self.list_offsets(topic, partitions, Offset::End)?;
        offsets.extend(found);
        Ok(offsets)
    }

    /// ListOffsets takes −1 and −2 for the end and the start where it takes a time otherwise, and librdkafka asks
    /// each broker once for all its partitions.
    fn list_offsets(
        &self,
        topic: Topic,
        partitions: &[Partition],
        at: Offset,
    ) -> Result<BTreeMap<Partition, i64>, KafkaFault> {
        let name = self.config.topic(topic);
        let mut list = TopicPartitionList::with_capacity(partitions.len());
        let answer = partitions
            .iter()
            .try_for_each(|partition| list.add_partition_offset(&name, partition.get().into(), at))
            .and_then(|()| self.asker.offsets_for_times(list, PATIENCE))
            .map_err(|e| KafkaFault::new(format!("listing offsets of {name}"), e))?;
        let mut offsets = BTreeMap::new();
        for element in answer.elements() {
            element
                .error()
                .map_err(|e| KafkaFault::new(format!("listing offsets of {name}"), e))?;
            let Ok(partition) = i64::from(element.partition()).try_into() else {
                continue;
            };
            if let Offset::Offset(offset) = element.offset() {
                offsets.insert(partition, offset);
            }
        }
        Ok(offsets)
    }

    /// Reads `ranges` (from included, to excluded) and hands every record to `visit`, in order within a partition,
    /// until all are read or `visit` breaks. Offsets that retention has passed are skipped.
    ///
    /// # Errors
    /// [`KafkaFault`] where nothing comes for 30 s or the client fails.
    pub fn scan(
        &self,
        topic: Topic,
        ranges: &[(Partition, Range<i64>)],
        mut visit: impl FnMut(Record) -> ControlFlow<()>,
    ) -> Result<(), KafkaFault> {
        let name = self.config.topic(topic);
        let mut open: BTreeMap<Partition, i64> = ranges
            .iter()
            .filter(|(_, range)| !range.is_empty())
            .map(|(partition, range)| (*partition, range.end))
            .collect();
        let fault = |e| KafkaFault::new(format!("reading {name}"), e);
        let consumer = self
            .consumer
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut list = TopicPartitionList::with_capacity(open.len());
        for (partition, range) in ranges.iter().filter(|(_, range)| !range.is_empty()) {
            list.add_partition_offset(&name, partition.get().into(), Offset::Offset(range.start))
                .map_err(fault)?;
        }
        consumer.assign(&list).map_err(fault)?;
        let done = drain(&consumer, &mut open, &mut visit).map_err(fault);
        consumer.unassign().map_err(fault)?;
        done
    }

    /// The record at `offset`, where it is still there.
    ///
    /// # Errors
    /// As [`Self::scan`].
    pub fn record(
        &self,
        topic: Topic,
        partition: Partition,
        offset: i64,
    ) -> Result<Option<Record>, KafkaFault> {
        let bounds = self.bounds(topic, &[partition])?;
        if !bounds
            .get(&partition)
            .is_some_and(|b| (b.start..b.end).contains(&offset))
        {
            return Ok(None);
        }
        let mut found = None;
        self.scan(topic, &[(partition, offset..offset + 1)], |record| {
            found = (record.offset == offset).then_some(record);
            ControlFlow::Break(())
        })?;
        Ok(found)
    }
}

/// Polls until every open partition has reached its end.
fn drain(
    consumer: &BaseConsumer<Named>,
    open: &mut BTreeMap<Partition, i64>,
    visit: &mut impl FnMut(Record) -> ControlFlow<()>,
) -> Result<(), KafkaError> {
    let mut last_record = Instant::now();
    while !open.is_empty() {
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => {
                last_record = Instant::now();
                let record = Record::from_message(&message);
                let (partition, next) = (record.partition, record.offset + 1);
                let Some(&end) = open.get(&partition) else {
                    continue;
                };
                if record.offset < end && visit(record).is_break() {
                    return Ok(());
                }
                if next >= end {
                    open.remove(&partition);
                }
            }
            // A new leader's high watermark may lie below the end for a moment: the rest still comes.
            Some(Err(KafkaError::PartitionEOF(_))) => {}
            Some(Err(error @ KafkaError::MessageConsumptionFatal(_))) => return Err(error),
            Some(Err(
                error @ KafkaError::MessageConsumption(
                    RDKafkaErrorCode::OffsetOutOfRange | RDKafkaErrorCode::AutoOffsetReset,
                ),
            )) => return Err(error),
            Some(Err(error)) => tracing::debug!(%error, "reading"),
            None => {}
        }
        if last_record.elapsed() > PATIENCE {
            return Err(KafkaError::MessageConsumption(
                RDKafkaErrorCode::OperationTimedOut,
            ));
        }
    }
    Ok(())
}
