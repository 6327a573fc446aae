#![doc = include_str!("../README.md")]

mod coalesce;
mod config;
mod janitor;
mod ledger;
#[doc(hidden)]
pub mod measured;
mod messages;
mod metrics;
mod outcome;
mod service;
mod sinks;

pub use config::{Config, ProjectorMySqlConfig, Table};
pub use ledger::Place;
pub use service::{serve, start};
pub use sinks::{contacts_into, messages_into, reads_into};
