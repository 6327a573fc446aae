//! How far `chat.inbound` is sequenced, as the newest events of each partition say.

use std::{collections::BTreeMap, ops::ControlFlow};

use schemas::{
    Partition, TimestampMs,
    event::{Body, Event, Source},
    topics::Topic,
};

use crate::{KafkaFault, LogReader};

/// What the newest events of a partition say.
#[derive(Clone, Debug, PartialEq)]
pub struct Newest {
    /// The highest source: everything up to it is answered for.
    pub last: Source,
    /// What the partition's clock shows.
    pub clock: TimestampMs,
    /// The newest event of that epoch that is no progress: its source and its time.
    pub decided: Option<(Source, TimestampMs)>,
}

impl Newest {
    fn new(event: &Event) -> Self {
        let mut newest = Self {
            last: event.src,
            clock: event.ts,
            decided: None,
        };
        newest.take(event);
        newest
    }

    fn take(&mut self, event: &Event) {
        self.clock = self.clock.max(event.ts);
        if event.src.mark.epoch > self.last.mark.epoch {
            self.decided = None;
        }
        if event.src.mark > self.last.mark {
            self.last = event.src;
        }
        let is_newer = self
            .decided
            .is_none_or(|(decided, _)| event.src.mark > decided.mark);
        let is_present = event.src.mark.epoch == self.last.mark.epoch;
        if event.body != Body::Progress && is_present && is_newer {
            self.decided = Some((event.src, event.ts));
        }
    }
}

impl LogReader {
    /// What the newest `look_back` records of each of `partitions` of `chat.events` say: a former owner's repeats may lie behind the
    /// highest source. A partition in which no event is found is absent. Blocks.
    ///
    /// # Errors
    /// [`KafkaFault`].
    pub fn newest_events(
        &self,
        partitions: &[Partition],
        look_back: i64,
    ) -> Result<BTreeMap<Partition, Newest>, KafkaFault> {
        let ranges: Vec<_> = self
            .bounds(Topic::Events, partitions)?
            .into_iter()
            .map(|(partition, bounds)| {
                let from = bounds.start.max(bounds.end - look_back);
                (partition, from..bounds.end)
            })
            .collect();
        let mut newest: BTreeMap<Partition, Newest> = BTreeMap::new();
        self.scan(Topic::Events, &ranges, |record| {
            if let Ok(event) = record.event() {
                newest
                    .entry(record.partition)
                    .and_modify(|newest| newest.take(&event))
                    .or_insert_with(|| Newest::new(&event));
            }
            ControlFlow::Continue(())
        })?;
        Ok(newest)
    }
}

#[cfg(test)]
mod tests {
    use schemas::event::{Rules, SrcMark};

    use super::*;

    fn event((epoch, offset): (u32, i64), ts: i64, body: Body) -> Event {
        let mark = SrcMark { epoch, offset };
        Event {
            src: Source {
                mark,
                leader_epoch: 0,
            },
            ts: TimestampMs(ts),
            body,
        }
    }

    fn control() -> Body {
        Body::Control(Rules::VERSION_1)
    }

    fn fold(events: &[Event]) -> Newest {
        let mut newest = Newest::new(&events[0]);
        events.iter().for_each(|event| newest.take(event));
        newest
    }

    #[test]
    fn repeats_of_a_former_owner_do_not_count() {
        let newest = fold(&[
            event((0, 4), 10, control()),
            event((0, 5), 11, control()),
            event((0, 6), 11, Body::Progress),
            event((0, 4), 10, control()),
        ]);
        assert_eq!(newest.last.mark.offset, 6);
        assert_eq!(newest.clock, TimestampMs(11));
        let (decided, ts) = newest.decided.unwrap();
        assert_eq!((decided.mark.offset, ts), (5, TimestampMs(11)));
    }

    #[test]
    fn what_an_earlier_epoch_decided_says_nothing_of_the_present_log() {
        let newest = fold(&[
            event((0, 4), 10, control()),
            event((1, -1), 10, Body::Progress),
            event((0, 5), 12, control()),
        ]);
        assert_eq!(
            newest.last.mark,
            SrcMark {
                epoch: 1,
                offset: -1
            }
        );
        assert_eq!(newest.decided, None);
        assert_eq!(newest.clock, TimestampMs(12));
    }
}
