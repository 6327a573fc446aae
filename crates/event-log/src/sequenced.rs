//! How far `chat.inbound` is sequenced, as the newest events of each partition say.

use std::{
    collections::BTreeMap,
    ops::{ControlFlow, Range},
};

use schemas::{
    Partition, TimestampMs,
    event::{Event, Source},
    topics::Topic,
};

use crate::{Bounds, EventLogError, LogReader};

/// What the newest events of a partition say.
#[derive(Clone, Debug, PartialEq)]
pub struct Newest {
    /// The highest source: everything up to it is answered for.
    pub last: Source,
    /// What the partition's clock shows.
    pub clock: TimestampMs,
}

impl Newest {
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
    /// What the newest `look_back` records of each of `partitions` of `chat.events` say, and where no event is among them, those
    /// before: a partition that is absent has none at all. It is for showing how far things are: a former owner's repeats may
    /// lie behind the highest source, and only a fold of the log sees past any number of them. Blocks.
    ///
    /// # Errors
    /// [`EventLogError`].
    pub fn newest_events(
        &self,
        partitions: &[Partition],
        look_back: i64,
    ) -> Result<BTreeMap<Partition, Newest>, EventLogError> {
        let bounds = self.bounds(Topic::Events, partitions)?;
        self.newest_events_within(bounds, look_back)
    }

    /// As [`LogReader::newest_events`], of what lay within these bounds.
    ///
    /// # Errors
    /// [`EventLogError`].
    pub fn newest_events_within(
        &self,
        bounds: BTreeMap<Partition, Bounds>,
        look_back: i64,
    ) -> Result<BTreeMap<Partition, Newest>, EventLogError> {
        let mut left = bounds;
        left.retain(|_, Bounds { start, end }| start < end);
        let mut newest = BTreeMap::new();
        let mut window = look_back.max(1);
        while !left.is_empty() {
            let ranges: Vec<_> = left
                .iter()
                .map(|(partition, Bounds { start, end })| {
                    (*partition, *start.max(&(end - window))..*end)
                })
                .collect();
            self.take_events(&ranges, &mut newest)?;
            for (partition, range) in ranges {
                if let Some(bounds) = left.get_mut(&partition) {
                    bounds.end = range.start;
                }
            }
            left.retain(|partition, Bounds { start, end }| {
                start < end && !newest.contains_key(partition)
            });
            window = window.saturating_mul(2);
        }
        Ok(newest)
    }

    fn take_events(
        &self,
        ranges: &[(Partition, Range<i64>)],
        newest: &mut BTreeMap<Partition, Newest>,
    ) -> Result<(), EventLogError> {
        self.scan(Topic::Events, ranges, |record| {
            if let Ok(event) = record.event() {
                newest
                    .entry(record.partition)
                    .and_modify(|newest| newest.take(&event))
                    .or_insert_with(|| Newest::new(&event));
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
        };
        let mut newest = Newest::new(&event((0, 4), 10));
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
