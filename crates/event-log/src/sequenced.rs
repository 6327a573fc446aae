//! How far `chat.inbound` is sequenced, according to the newest events of each partition.

use std::ops::{ControlFlow, Range};

use schemas::{
    OffsetRange, Partition, PartitionMap, TimestampMs,
    event::{Event, Source},
    topics::Topic,
};

use crate::{EventLogError, LogReader};

/// How far a partition is sequenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequenced {
    /// The highest source on `chat.events`: everything up to it is decided. [`SourceOffset::START`](schemas::event::SourceOffset::START) if there is
    /// none.
    pub last: Source,
    /// The partition's clock.
    pub clock: TimestampMs,
}

impl Sequenced {
    fn new(event: &Event) -> Self {
        Self {
            last: event.src,
            clock: event.ts,
        }
    }

    fn take(&mut self, event: &Event) {
        self.clock = self.clock.max(event.ts);
        if event.src.offset > self.last.offset {
            self.last = event.src;
        }
    }
}

impl LogReader {
    /// How far each partition is sequenced, according to the newest `look_back` records within `left` or, if there is no event among them, to earlier
    /// ones. A partition that is absent from the result has no events at all. Serves only to show progress: a former owner's repeats may come after
    /// the highest source, and only a fold of the log sees past any number of them. Blocks.
    ///
    /// # Errors
    /// [`EventLogError`].
    pub fn newest_events(
        &self,
        mut left: PartitionMap<OffsetRange>,
        look_back: i64,
    ) -> Result<PartitionMap<Sequenced>, EventLogError> {
        let mut newest = PartitionMap::new();
        let mut window = look_back.max(1);
        loop {
            left.retain(|partition, OffsetRange { start, end }| {
                start < end && !newest.contains(partition)
            });
            if left.is_empty() {
                return Ok(newest);
            }
            let ranges: Vec<_> = left
                .iter_mut()
                .map(|(partition, range)| {
                    let last = range.last(window);
                    range.end = last.start;
                    (partition, last)
                })
                .collect();
            self.take_events(&ranges, &mut newest)?;
            window = window.saturating_mul(2);
        }
    }

    fn take_events(
        &self,
        ranges: &[(Partition, Range<i64>)],
        newest: &mut PartitionMap<Sequenced>,
    ) -> Result<(), EventLogError> {
        self.scan(Topic::Events, ranges, |record| {
            if let Ok(event) = record.event() {
                newest
                    .get_or_insert_with(record.partition, || Sequenced::new(&event))
                    .take(&event);
            }
            ControlFlow::Continue(())
        })
    }
}

#[cfg(test)]
mod tests {
    use schemas::event::{Body, SourceOffset};

    use super::*;

    #[test]
    fn repeats_of_a_former_owner_do_not_count() {
        let event = |(epoch, offset), ts| Event {
            src: Source {
                offset: SourceOffset { epoch, offset },
                leader_epoch: 0,
            },
            ts: TimestampMs(ts),
            body: Body::Progress,
            command: None,
            words: None,
        };
        let mut newest = Sequenced::new(&event((0, 4), 10));
        for later in [event((1, 2), 11), event((0, 5), 12), event((1, -1), 10)] {
            newest.take(&later);
        }
        let watermark = SourceOffset {
            epoch: 1,
            offset: 2,
        };
        assert_eq!(
            (newest.last.offset, newest.clock),
            (watermark, TimestampMs(12))
        );
    }
}
