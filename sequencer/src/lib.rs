#![doc = include_str!("../README.md")]

mod config;
pub mod core;
mod runtime;
mod sabotage;
mod service;
pub mod shell;
#[cfg(test)]
mod sim;

pub use config::{Config, SequencerConfig};
pub use runtime::{GROUP, Status};
pub use service::{serve, start};
