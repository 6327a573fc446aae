//! The gateway over real WebSockets, on a real Kafka and a real MySQL. A test writes the logs as a sequencer would.

#![expect(
    clippy::unwrap_used,
    reason = "a test that finds something else has failed"
)]

mod deployment;
mod device;
mod devices;
mod gateway;
mod limits;
mod page;
mod sends;
mod streams;
