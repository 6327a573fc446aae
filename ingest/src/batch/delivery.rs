use std::sync::Arc;

use event_log::{Delivery, OnDelivery, require_offset};
use posting::{BytePermit, InboundRecord};
use schemas::kind::Retry;
use tokio::time::Instant;

use super::queue::ResultQueue;

/// The delivery handle of one line: gives the record's bytes back and completes its entry in the result queue.
pub(crate) struct LineDelivery {
    queue: Arc<ResultQueue>,
    index: u32,
    /// The label of the record's kind.
    label: &'static str,
    retry: Retry,
    permit: BytePermit,
    /// When it was appended, if its latency is recorded.
    sampled_at: Option<Instant>,
}

/// The latency of one line in this many is recorded: a histogram keeps each sample for some seconds.
const SAMPLE_EVERY: u32 = 64;

impl LineDelivery {
    pub(crate) fn new(
        queue: &Arc<ResultQueue>,
        index: u32,
        record: &InboundRecord,
        permit: BytePermit,
    ) -> Self {
        Self {
            queue: Arc::clone(queue),
            index,
            label: record.label,
            retry: record.retry,
            permit,
            sampled_at: index.is_multiple_of(SAMPLE_EVERY).then(Instant::now),
        }
    }
}

impl OnDelivery for LineDelivery {
    fn delivered(self, outcome: Delivery) {
        drop(self.permit);
        let outcome = require_offset(outcome);
        if let (Some(at), Ok(_)) = (self.sampled_at, &outcome) {
            self.queue.metrics.line_delivered(at.elapsed());
        }
        if outcome.is_ok() {
            self.queue.metrics.accepted(self.label);
        }
        self.queue.complete(self.index, self.retry, outcome);
    }
}

#[cfg(test)]
mod tests {
    use access::Caller;
    use posting::{ByteBudget, PostMetrics};

    use super::*;
    use crate::{
        batch::{
            entries::Entry,
            queue::{LineResult, held_bytes},
        },
        json,
    };

    #[tokio::test]
    async fn without_an_offset_in_the_report_the_outcome_is_unknown() {
        let budget = ByteBudget::new(4000, 1000).of(&Caller::Anyone);
        let queue = ResultQueue::new(&budget, Arc::new(PostMetrics::register("ingest")));
        let held = budget.try_acquire(held_bytes(None)).unwrap();
        let index = queue.add_pending(1, 17.try_into().unwrap(), None, held);
        let permit = budget.try_acquire(100).unwrap();
        let line = br#"{"message":{"srcid":"1","destid":"2","msg":"a"}}"#;
        let record = json::event(line, 16).unwrap().into();
        LineDelivery::new(&queue, index, &record, permit).delivered(Ok(None));
        let taken = queue.take().await;
        assert!(matches!(
            taken[..],
            [LineResult::Appended(Entry::Unknown { line: 1, .. }, None)]
        ));
    }
}
