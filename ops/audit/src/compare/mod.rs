//! What the stores hold, against the fold.

mod judge;
mod keys;
mod look;
mod messages;
mod values;

pub(crate) use judge::{Observed, Subject};
pub(crate) use look::again;
pub(crate) use messages::{MessageTable, compare_messages};
pub(crate) use values::{
    Suspect, Values, compare_values, contacts_of, look_again, reads_of, sides_by, view,
};
