#![doc = include_str!("../README.md")]

mod config;
mod dead_letters;
mod devices;
mod frames;
mod hub;
mod memberships;
mod metrics;
mod page;
mod rates;
mod service;
mod socket;
mod state;
mod tail;

pub use config::{Config, GatewayConfig};
pub use page::PageConfig;
pub use service::{serve, start};
