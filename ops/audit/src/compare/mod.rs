//! Compares the stores with the state that follows from the log.

mod changes;
mod group_rows;
mod groups;
mod message_rows;
mod messages;
mod mismatch;
mod profiles;
mod redis_keys;
mod stored;
mod stored_groups;
mod values;

pub(crate) use changes::compare_changes;
pub(crate) use group_rows::{GroupKey, GroupTable};
pub(crate) use groups::{
    compare_group_rows, compare_group_table, group_keys_by, read_groups_again,
};
pub(crate) use message_rows::MessageRows;
use messages::check_misfits;
pub(crate) use messages::{MessageTable, compare_messages};
pub(crate) use mismatch::{Rows, StoredValue, ValueKey};
pub(crate) use profiles::{
    compare_profile_rows, compare_profile_table, compare_profiles, read_profiles_again,
};
pub(crate) use stored::read_value;
pub(crate) use values::{
    PossibleMismatch, Values, compare_table, compare_values, contact_keys_by, expected, read_again,
};
