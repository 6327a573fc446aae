//! What `bench/pure-parts` measures. No part of the API.

use std::hint::black_box;

use projection::Slice;

use crate::batch::Batch;

/// Folds a slice into an empty batch; answers how many events that holds.
#[must_use]
pub fn fold(slice: &Slice) -> usize {
    let mut batch = Batch::default();
    batch.absorb(slice);
    black_box(&batch).events() as usize
}
