//! Read access to the two logs of a partition.

use std::ops::{ControlFlow, Range};

use event_log::{EventLogError, LogReader, Record};
use schemas::{
    OffsetRange, Partition, TimestampMs,
    command::{Command, InboundValue},
    event::Event,
    topics::Topic,
};

/// A retained record of `chat.inbound`.
#[derive(Clone, Debug)]
pub(super) struct InboundRecord {
    pub(super) offset: i64,
    pub(super) leader_epoch: i32,
    pub(super) appended: TimestampMs,
    /// `None` if the record is not a valid command.
    pub(super) command: Option<Command>,
    /// The command's id; empty if it has none.
    pub(super) id: String,
}

/// Reads one partition of `chat.inbound` and of `chat.events`.
pub(super) trait Logs {
    /// Visits the retained records within `range` of `chat.inbound`, in order, until `visit` breaks.
    fn scan_inbound(
        &self,
        range: Range<i64>,
        visit: &mut dyn FnMut(InboundRecord) -> ControlFlow<()>,
    ) -> Result<(), EventLogError>;

    /// The offsets of `chat.events`.
    fn events_range(&self) -> Result<Range<i64>, EventLogError>;

    /// The offset of the first record of `chat.events` at or after `ts`; the end if there is none.
    fn events_since(&self, ts: TimestampMs) -> Result<i64, EventLogError>;

    /// The events within `range` of `chat.events`; undecodable records are skipped.
    fn events(&self, range: Range<i64>) -> Result<Vec<Event>, EventLogError>;

    /// The first record within `range` of `chat.inbound`: offsets can have gaps.
    fn first_inbound(&self, range: Range<i64>) -> Result<Option<InboundRecord>, EventLogError> {
        let mut first = None;
        self.scan_inbound(range, &mut |record| {
            first = Some(record);
            ControlFlow::Break(())
        })?;
        Ok(first)
    }
}

/// Both logs of one partition on Kafka.
pub(super) struct KafkaLogs<'a> {
    pub(super) reader: &'a LogReader,
    pub(super) partition: Partition,
}

impl Logs for KafkaLogs<'_> {
    fn scan_inbound(
        &self,
        range: Range<i64>,
        visit: &mut dyn FnMut(InboundRecord) -> ControlFlow<()>,
    ) -> Result<(), EventLogError> {
        self.reader
            .scan(Topic::Inbound, &[(self.partition, range)], |record| {
                visit(InboundRecord::from(&record))
            })
    }

    fn events_range(&self) -> Result<Range<i64>, EventLogError> {
        let bounds = self.reader.bounds(Topic::Events, &[self.partition])?;
        let OffsetRange { start, end } = bounds[self.partition];
        Ok(start..end)
    }

    fn events_since(&self, ts: TimestampMs) -> Result<i64, EventLogError> {
        let these = [self.partition];
        let since = self.reader.offsets_at(Topic::Events, &these, ts)?;
        Ok(since[self.partition])
    }

    fn events(&self, range: Range<i64>) -> Result<Vec<Event>, EventLogError> {
        let mut events = Vec::new();
        self.reader
            .scan(Topic::Events, &[(self.partition, range)], |record| {
                events.extend(record.event());
                ControlFlow::Continue(())
            })?;
        Ok(events)
    }
}

impl From<&Record> for InboundRecord {
    fn from(record: &Record) -> Self {
        let value = InboundValue::parse(record.bytes()).ok();
        let (command, id) = value.map(|value| (value.command, value.id)).unzip();
        Self {
            offset: record.offset,
            leader_epoch: record.leader_epoch,
            appended: record.timestamp,
            command,
            id: id.unwrap_or_default(),
        }
    }
}
