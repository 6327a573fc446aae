//! Compares the stores with the state that follows from the log.

mod changes;
mod messages;
mod mismatch;
mod redis_keys;
mod stored;
mod values;

pub(crate) use changes::compare_changes;
use messages::check_misfits;
pub(crate) use messages::{MessageTable, compare_messages};
pub(crate) use mismatch::{Rows, StoredValue, ValueKey};
pub(crate) use stored::read_value;
pub(crate) use values::{
    PossibleMismatch, Values, compare_table, compare_values, contact_keys_by, expected, read_again,
};
