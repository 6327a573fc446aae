//! Rebuilds against real servers. Contact rows are written by the tests themselves, so that they decide when the barrier opens.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on is to panic")]

mod counting;
mod rebuilding;
mod requests;
mod test_env;

/// Servers of Redis that a test may stop; the store's own tests have the same need.
#[path = "../../../unread-store/tests/it/server.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod server;
