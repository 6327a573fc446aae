#![doc = include_str!("../README.md")]

mod coalesce;
mod config;
mod janitor;
mod ledger;
mod messages;
mod metrics;
mod outcome;
mod service;

pub use config::{Config, ProjectorMySqlConfig};
pub use service::{serve, start};
