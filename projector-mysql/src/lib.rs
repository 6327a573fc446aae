#![doc = include_str!("../README.md")]

mod config;
mod janitor;
mod metrics;
mod service;

pub use config::{Config, ProjectorMySqlConfig, Table};
pub use service::{serve, start};
