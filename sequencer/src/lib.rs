#![doc = include_str!("../README.md")]

mod config;
pub mod core;
mod readiness;
mod runtime;
mod service;
pub mod shell;
#[cfg(test)]
mod sim;

pub use config::{Config, SequencerConfig};
pub use runtime::{GROUP, LoadFault, Status, sequenced, states};
pub use service::{serve, start};
