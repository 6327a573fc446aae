//! The gateway over real WebSockets, on a real Kafka and a real MySQL. A test writes the logs as a sequencer would.

#![expect(
    clippy::unwrap_used,
    reason = "a test that finds something else has failed"
)]

mod deployment;
mod description;
mod device;
mod devices;
mod gateway;
mod limits;
mod page;
mod presence;
mod proxy;
#[expect(dead_code, reason = "tests here need less of it")]
#[path = "../../../crates/unread-store/tests/it/server.rs"]
mod redis_server;
mod sends;
mod streams;
mod typing;
mod upgrade;
