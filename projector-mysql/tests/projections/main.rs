//! The projections against a real Kafka and a real MariaDB: whatever happens, the rows are the fold of the log.

#![expect(clippy::unwrap_used, reason = "a failed step of a test ends the test")]

mod changes;
mod fold;
mod groups;
mod instances;
mod log;
mod lost_offsets;
mod outages;
mod plain;
mod refusals;
mod test_env;
mod unresolved_reads;
