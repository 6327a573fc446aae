use std::sync::Arc;

use event_log::{DeliveryFailure, OnDelivery};
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
    fn delivered(self, outcome: Result<i64, DeliveryFailure>) {
        drop(self.room);
        if let (Some(at), Ok(_)) = (self.sampled_at, &outcome) {
            self.results.metrics.line_delivered(at.elapsed());
        }
        self.results.complete(self.index, self.kind, outcome);
    }
}
