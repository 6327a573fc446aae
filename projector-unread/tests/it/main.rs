//! The projection against real servers: the log is written by the tests, the contact rows by the real projector-mysql.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on is to panic")]

mod absence;
mod counting;
mod outages;
mod profiles;
mod slots;
mod story;
mod test_env;

/// Servers of Redis that a test may empty and kill; the store's own tests have the same need.
#[path = "../../../crates/unread-store/tests/it/server.rs"]
mod server;
