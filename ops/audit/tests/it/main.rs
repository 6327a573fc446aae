//! A small environment that is first consistent and then not: the audit finds no difference, and then finds each.

#![expect(clippy::unwrap_used, reason = "a failed step of a test ends the test")]

mod differences_in_logs;
mod differences_in_stores;
mod every_cell;
mod group_rows;
mod groups;
mod no_difference;
mod story;
mod test_env;
mod under_load;
