//! The store against a real MariaDB.

#![expect(clippy::unwrap_used, reason = "a failed step of a test ends the test")]

mod changes;
mod contacts;
mod devices;
mod failures;
mod groups;
mod left;
mod messages;
mod offsets;
mod plans;
mod profiles;
mod queries;
mod reads;
mod schema;
mod snapshots;
mod support;
mod swap;
