#![doc = include_str!("../README.md")]

mod coalesce;
mod config;
mod destination;
mod janitor;
#[doc(hidden)]
pub mod measured;
mod messages;
mod metrics;
mod offsets;
mod service;
mod severity;
mod sinks;

pub use config::{Config, ProjectorMySqlConfig, Table};
pub use destination::Destination;
pub use service::{serve, start};
pub use sinks::{contacts_into, messages_into, reads_into};
