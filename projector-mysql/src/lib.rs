#![doc = include_str!("../README.md")]

mod coalesce;
mod config;
mod destination;
mod groups;
mod janitor;
#[doc(hidden)]
pub mod measured;
mod messages;
mod metrics;
mod offsets;
mod service;
mod severity;
mod sinks;
mod unresolved_reads;

pub use config::{Config, ProjectorMySqlConfig, Table};
pub use destination::Destination;
pub use service::{serve, start};
pub use sinks::{contacts_into, messages_into, reads_into};
pub use unresolved_reads::fill_unresolved_reads;
