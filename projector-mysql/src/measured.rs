//! What `bench/pure-parts` measures. No part of the API.

use std::hint::black_box;

use projection::Slice;

use crate::coalesce::{
    Contact,
    target::{Target, Told, told},
};

/// Folds a slice into contacts; answers how many of its events told of any.
#[must_use]
pub fn fold_contacts(slice: &Slice) -> usize {
    let mut target = Target::<Contact>::default();
    let mut count = 0;
    for event in &slice.events {
        let Told::Rows(rows) = told::<Contact>(event) else {
            continue;
        };
        count += usize::from(rows[0].is_some());
        rows.into_iter().flatten().for_each(|row| target.take(row));
    }
    black_box(&target);
    count
}
