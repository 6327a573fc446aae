//! The two logs of a partition, as far as a raise looks into them.

use std::ops::{ControlFlow, Range};

use event_log::{Bounds, EventLogError, LogReader, Record};
use schemas::{Partition, TimestampMs, command::Command, event::Event, topics::Topic};

/// A record of `chat.inbound` that is retained.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) offset: i64,
    pub(super) leader_epoch: i32,
    pub(super) appended: TimestampMs,
    /// `None` where it is no command.
    pub(super) command: Option<Command>,
}

/// Looks into one partition of `chat.inbound` and of `chat.events`.
pub(super) trait Logs {
    /// Visits what is retained of `range` of `chat.inbound`, in order, until `visit` breaks.
    fn scan_inbound(
        &self,
        range: Range<i64>,
        visit: &mut dyn FnMut(Kept) -> ControlFlow<()>,
    ) -> Result<(), EventLogError>;

    /// What `chat.events` holds.
    fn events_held(&self) -> Result<Range<i64>, EventLogError>;

    /// The offset of the first record of `chat.events` that is at or after `ts`; its end where there is none.
    fn events_since(&self, ts: TimestampMs) -> Result<i64, EventLogError>;

    /// The events in `range` of `chat.events`; what is none is left out.
    fn events(&self, range: Range<i64>) -> Result<Vec<Event>, EventLogError>;

    /// The first record of `range` of `chat.inbound`: offsets may be missing within the log.
    fn first_inbound(&self, range: Range<i64>) -> Result<Option<Kept>, EventLogError> {
        let mut first = None;
        self.scan_inbound(range, &mut |kept| {
            first = Some(kept);
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
        visit: &mut dyn FnMut(Kept) -> ControlFlow<()>,
    ) -> Result<(), EventLogError> {
        self.reader
            .scan(Topic::Inbound, &[(self.partition, range)], |record| {
                visit(kept(&record))
            })
    }

    fn events_held(&self) -> Result<Range<i64>, EventLogError> {
        let bounds = self.reader.bounds(Topic::Events, &[self.partition])?;
        let Bounds { start, end } = bounds[&self.partition];
        Ok(start..end)
    }

    fn events_since(&self, ts: TimestampMs) -> Result<i64, EventLogError> {
        let these = [self.partition];
        let since = self.reader.offsets_at(Topic::Events, &these, ts)?;
        Ok(since[&self.partition])
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

fn kept(record: &Record) -> Kept {
    Kept {
        offset: record.offset,
        leader_epoch: record.leader_epoch,
        appended: record.timestamp,
        command: Command::parse(record.bytes()).ok(),
    }
}
