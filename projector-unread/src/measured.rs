//! What `bench/pure-parts` measures. No part of the API.

use std::hint::black_box;

use projection::EventBatch;

use crate::batch::Batch;

/// Folds events into an empty batch; answers how many events that holds.
#[must_use]
pub fn fold(events: &EventBatch) -> usize {
    let mut batch = Batch::default();
    batch.absorb(events);
    black_box(&batch).events() as usize
}
