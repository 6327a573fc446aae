//! The code that `bench/pure-parts` measures. Not part of the API.

use std::hint::black_box;

use projection::EventBatch;

use crate::batch::Batch;

/// Folds a batch of events into an empty batch; returns its number of events.
#[must_use]
pub fn fold(events: &EventBatch) -> usize {
    let mut batch = Batch::new(1);
    batch.absorb(events);
    black_box(&batch).events() as usize
}
