#![doc = include_str!("../README.md")]

mod batch;
mod config;
mod log_end;
#[doc(hidden)]
pub mod measured;
mod metrics;
mod service;
mod sink;
mod slot_writer;

pub use config::{Config, ProjectorUnreadConfig};
pub use service::{serve, start};
