//! A bounded read: from given offsets up to given ends.

use std::{
    ops::{ControlFlow, Range},
    time::{Duration, Instant},
};

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::{KafkaError, RDKafkaErrorCode},
};
use schemas::{OffsetRange, Partition, PartitionMap};

use crate::{Record, RecordRef, context::NamedContext, rests::Rests};

/// How long a poll waits.
const POLL: Duration = Duration::from_millis(100);

/// A result of a scan, in order within a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scanned {
    /// The next record.
    Record(Record),
    /// These offsets were removed by retention or deletion before they were read.
    Removed {
        /// The partition.
        partition: Partition,
        /// A part of the range that was to be read.
        offsets: Range<i64>,
    },
}

/// The part of a consumer that a scan needs.
pub(crate) trait Source {
    /// Reads only the rest of `open` from now on.
    fn read(&self, open: &PartitionMap<Range<i64>>) -> Result<(), KafkaError>;
    /// The next record or an error; waits at most `timeout`.
    fn poll(&self, timeout: Duration) -> Option<Result<Record, KafkaError>>;
    /// The offsets that a partition has now.
    fn bounds(&self, partition: Partition) -> Result<OffsetRange, KafkaError>;
}

/// A consumer that only the scan uses.
pub(crate) struct TopicSource<'a> {
    pub(crate) consumer: &'a BaseConsumer<NamedContext>,
    pub(crate) topic: &'a str,
    /// How long a broker may take to return the offset range of a partition.
    pub(crate) timeout: Duration,
}

impl Source for TopicSource<'_> {
    fn read(&self, open: &PartitionMap<Range<i64>>) -> Result<(), KafkaError> {
        let mut list = TopicPartitionList::with_capacity(open.len());
        for (partition, left) in open.iter() {
            let next = Offset::Offset(left.start);
            list.add_partition_offset(self.topic, partition.get().into(), next)?;
        }
        self.consumer.assign(&list)
    }

    fn poll(&self, timeout: Duration) -> Option<Result<Record, KafkaError>> {
        let polled = self.consumer.poll(timeout)?;
        Some(polled.map(|message| RecordRef::of_message(&message).to_record()))
    }

    fn bounds(&self, partition: Partition) -> Result<OffsetRange, KafkaError> {
        let number = partition.get().into();
        let (start, end) = self
            .consumer
            .fetch_watermarks(self.topic, number, self.timeout)?;
        Ok(OffsetRange { start, end })
    }
}

/// A scan under way.
pub(crate) struct Scan<S> {
    source: S,
    /// The rest of each partition.
    open: PartitionMap<Range<i64>>,
    /// The longest wait for the next record.
    timeout: Duration,
    /// The wait so far, without the visitor's own time.
    waited: Duration,
}

impl<S: Source> Scan<S> {
    pub(crate) fn new(source: S, ranges: &[(Partition, Range<i64>)], timeout: Duration) -> Self {
        Self {
            source,
            open: ranges
                .iter()
                .filter(|(_, range)| !range.is_empty())
                .cloned()
                .collect(),
            timeout,
            waited: Duration::ZERO,
        }
    }

    /// Reads until every partition is at its end or `visit` breaks.
    pub(crate) fn run(
        mut self,
        mut visit: impl FnMut(Scanned) -> ControlFlow<()>,
    ) -> Result<(), KafkaError> {
        if self.open.is_empty() {
            return Ok(());
        }
        let mut rests = Rests::of_this_thread();
        self.source.read(&self.open)?;
        while !self.open.is_empty() {
            if self.step(&mut visit)?.is_break() {
                break;
            }
            if let Some(rests) = &mut rests {
                rests.after_record();
            }
            if self.waited > self.timeout {
                let late = RDKafkaErrorCode::OperationTimedOut;
                return Err(KafkaError::MessageConsumption(late));
            }
        }
        Ok(())
    }

    fn step(
        &mut self,
        visit: &mut impl FnMut(Scanned) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, KafkaError> {
        use RDKafkaErrorCode as Code;
        let asked = Instant::now();
        let polled = self.source.poll(POLL);
        self.waited += asked.elapsed();
        match polled {
            Some(Ok(record)) => {
                self.waited = Duration::ZERO;
                return Ok(self.take(record, visit));
            }
            // A new leader's high watermark may be below the end for a moment: the rest still comes.
            None | Some(Err(KafkaError::PartitionEOF(_))) => {}
            Some(Err(error @ KafkaError::MessageConsumptionFatal(_))) => return Err(error),
            Some(Err(KafkaError::MessageConsumption(
                Code::OffsetOutOfRange | Code::AutoOffsetReset,
            ))) => return self.skip_removed(visit),
            Some(Err(error)) => tracing::debug!(%error, "reading"),
        }
        Ok(ControlFlow::Continue(()))
    }

    fn take(
        &mut self,
        record: Record,
        visit: &mut impl FnMut(Scanned) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (partition, offset) = (record.partition, record.offset);
        let Some(left) = self.open.get_mut(partition) else {
            return ControlFlow::Continue(());
        };
        let wanted = offset < left.end;
        left.start = offset + 1;
        if left.is_empty() {
            self.open.remove(partition);
        }
        if wanted {
            visit(Scanned::Record(record))
        } else {
            ControlFlow::Continue(())
        }
    }

    /// A position is out of range, and librdkafka has stopped there: reports the removed offsets, and continues after them.
    fn skip_removed(
        &mut self,
        visit: &mut impl FnMut(Scanned) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, KafkaError> {
        let mut nothing_removed = true;
        for partition in self.open.partitions().collect::<Vec<_>>() {
            let OffsetRange { start, end } = self.source.bounds(partition)?;
            let Some(left) = self.open.get_mut(partition) else {
                continue;
            };
            if left.start > end {
                let beyond = RDKafkaErrorCode::OffsetOutOfRange;
                return Err(KafkaError::MessageConsumption(beyond));
            }
            if left.start >= start {
                continue;
            }
            nothing_removed = false;
            let offsets = left.start..start.min(left.end);
            left.start = start;
            if left.is_empty() {
                self.open.remove(partition);
            }
            if visit(Scanned::Removed { partition, offsets }).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        if nothing_removed {
            // A leader is changing: the same query would have the same result at once.
            std::thread::sleep(POLL);
            self.waited += POLL;
        }
        if !self.open.is_empty() {
            self.source.read(&self.open)?;
        }
        Ok(ControlFlow::Continue(()))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use schemas::TimestampMs;

    use super::*;

    /// A log of one partition whose records below `start` are gone.
    struct Log {
        start: Cell<i64>,
        end: i64,
        next: Cell<i64>,
        reads: RefCell<Vec<i64>>,
    }

    impl Log {
        fn new(start: i64, end: i64) -> Self {
            Self {
                start: Cell::new(start),
                end,
                next: Cell::new(-1),
                reads: RefCell::default(),
            }
        }
    }

    impl Source for &Log {
        fn read(&self, open: &PartitionMap<Range<i64>>) -> Result<(), KafkaError> {
            self.next.set(open[partition()].start);
            self.reads.borrow_mut().push(self.next.get());
            Ok(())
        }

        fn poll(&self, _: Duration) -> Option<Result<Record, KafkaError>> {
            let offset = self.next.get();
            if offset >= self.end {
                return None;
            }
            if offset < self.start.get() {
                let code = RDKafkaErrorCode::AutoOffsetReset;
                return Some(Err(KafkaError::MessageConsumption(code)));
            }
            self.next.set(offset + 1);
            Some(Ok(record(offset)))
        }

        fn bounds(&self, _: Partition) -> Result<OffsetRange, KafkaError> {
            Ok(OffsetRange {
                start: self.start.get(),
                end: self.end,
            })
        }
    }

    fn partition() -> Partition {
        7.try_into().unwrap()
    }

    fn record(offset: i64) -> Record {
        Record {
            partition: partition(),
            offset,
            timestamp: TimestampMs(0),
            leader_epoch: 0,
            key: None,
            value: None,
            headers: Vec::new(),
        }
    }

    fn scan(
        log: &Log,
        range: Range<i64>,
        timeout: Duration,
        mut each: impl FnMut(),
    ) -> (Vec<Scanned>, Result<(), KafkaError>) {
        let mut seen = Vec::new();
        let ended = Scan::new(log, &[(partition(), range)], timeout).run(|scanned| {
            each();
            seen.push(scanned);
            ControlFlow::Continue(())
        });
        (seen, ended)
    }

    #[test]
    fn the_time_of_the_visitor_does_not_count_as_waiting() {
        let log = Log::new(0, 3);
        let timeout = Duration::from_millis(20);
        let (seen, ended) = scan(&log, 0..3, timeout, || {
            std::thread::sleep(2 * timeout);
        });
        assert_eq!(ended, Ok(()));
        assert_eq!(seen.len(), 3);
    }

    #[test]
    fn a_scan_ends_after_its_timeout() {
        struct Silent;
        impl Source for Silent {
            fn read(&self, _: &PartitionMap<Range<i64>>) -> Result<(), KafkaError> {
                Ok(())
            }
            fn poll(&self, _: Duration) -> Option<Result<Record, KafkaError>> {
                std::thread::sleep(Duration::from_millis(1));
                None
            }
            fn bounds(&self, _: Partition) -> Result<OffsetRange, KafkaError> {
                Ok(OffsetRange { start: 0, end: 1 })
            }
        }
        let scan = Scan::new(Silent, &[(partition(), 0..1)], Duration::from_millis(5));
        let late = KafkaError::MessageConsumption(RDKafkaErrorCode::OperationTimedOut);
        assert_eq!(scan.run(|_| ControlFlow::Continue(())), Err(late));
    }

    #[test]
    fn removed_offsets_are_reported_and_the_rest_is_read() {
        let log = Log::new(2, 4);
        let (seen, ended) = scan(&log, 0..4, Duration::MAX, || {});
        assert_eq!(ended, Ok(()));
        let removed = Scanned::Removed {
            partition: partition(),
            offsets: 0..2,
        };
        let records = [2, 3].map(|offset| Scanned::Record(record(offset)));
        assert_eq!(seen, [&[removed][..], &records].concat());
        assert_eq!(*log.reads.borrow(), [0, 2]);
        let (seen, ended) = scan(&log, 0..1, Duration::MAX, || {});
        assert_eq!((seen.len(), ended), (1, Ok(())), "all of it is gone");
    }

    #[test]
    fn a_log_that_ends_before_the_position_is_an_error() {
        struct Short;
        impl Source for Short {
            fn read(&self, _: &PartitionMap<Range<i64>>) -> Result<(), KafkaError> {
                Ok(())
            }
            fn poll(&self, _: Duration) -> Option<Result<Record, KafkaError>> {
                let code = RDKafkaErrorCode::OffsetOutOfRange;
                Some(Err(KafkaError::MessageConsumption(code)))
            }
            fn bounds(&self, _: Partition) -> Result<OffsetRange, KafkaError> {
                Ok(OffsetRange { start: 0, end: 3 })
            }
        }
        let scan = Scan::new(Short, &[(partition(), 5..9)], Duration::MAX);
        assert!(scan.run(|_| panic!("there is nothing to see")).is_err());
    }
}
