use std::sync::Arc;

use event_log::{Delivery, OnDelivery, placed};
use tokio::time::Instant;

use super::results::Results;
use crate::{posted::EventKind, room::Taken};

/// Takes the delivery report of one line, and gives the record's room back.
pub(crate) struct LineDelivery {
    results: Arc<Results>,
    index: u32,
    kind: EventKind,
    room: Taken,
    /// When it was appended, where its latency is recorded.
    sampled_at: Option<Instant>,
}

/// The latency of every so many lines is recorded: a histogram keeps each sample for some seconds.
const SAMPLED: u32 = 64;

impl LineDelivery {
    pub(crate) fn new(results: &Arc<Results>, index: u32, kind: EventKind, room: Taken) -> Self {
        Self {
            results: Arc::clone(results),
            index,
            kind,
            room,
            sampled_at: index.is_multiple_of(SAMPLED).then(Instant::now),
        }
    }
}

impl OnDelivery for LineDelivery {
    fn delivered(self, outcome: Delivery) {
        drop(self.room);
        let outcome = placed(outcome);
        if let (Some(at), Ok(_)) = (self.sampled_at, &outcome) {
            self.results.metrics.line_delivered(at.elapsed());
        }
        self.results.complete(self.index, self.kind, outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        batch::{
            slots::Failure,
            state::{LineResult, held_bytes},
        },
        metrics::IngestMetrics,
        room::Room,
    };

    #[tokio::test]
    async fn an_offset_that_is_not_known_is_an_unknown_outcome_and_no_position() {
        let room = Room::new(1000);
        let results = Results::new(&room, Arc::new(IngestMetrics::new()));
        let held = room.try_take(held_bytes(None)).unwrap();
        let index = results.expect(1, 17.try_into().unwrap(), None, held);
        let record = room.try_take(100).unwrap();
        LineDelivery::new(&results, index, EventKind::Message, record).delivered(Ok(None));
        let taken = results.take().await;
        assert!(matches!(
            taken[..],
            [LineResult::Failed {
                line: 1,
                failure: Failure::Unknown,
                ..
            }]
        ));
    }
}
