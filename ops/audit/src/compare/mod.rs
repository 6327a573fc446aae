//! Compares the stores with the state that follows from the log.

mod changes;
mod comparison;
mod differences;
mod key;
mod left;
mod message_rows;
mod messages;
mod mismatch;
mod read;
mod redis;
mod redis_keys;
mod resume_offsets;
mod retention;
mod table;
mod unread;
mod unresolved_reads;
mod value;
mod values;

pub(crate) use changes::compare_changes;
pub(crate) use comparison::{Comparison, PossibleMismatch};
pub(crate) use key::Rows;
pub(crate) use message_rows::MessageRows;
pub(crate) use messages::{MessageTable, compare_messages};
pub(crate) use resume_offsets::compare_resume_offsets;
pub(crate) use retention::compare_retention;
pub(crate) use table::compare_table;
pub(crate) use unresolved_reads::UnresolvedReads;
pub(crate) use value::Value;
pub(crate) use values::{compare_changed, compare_values, read_again};
