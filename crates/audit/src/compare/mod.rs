//! What the stores hold, against the fold.

mod judge;
mod keys;
mod look;
mod messages;
mod values;

pub(crate) use messages::{MessageTable, compare_messages};
pub(crate) use values::{Values, compare_values, look_again};
