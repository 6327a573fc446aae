//! The store against a real Redis. Tests flush, kill and restart their server, so each has one of its own.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on is to panic")]

mod batches;
mod cluster;
mod expiry;
mod model;
mod outages;
mod positions;
mod presence;
mod profiles;
mod reading;
mod rebuild;
mod server;
mod test_env;
