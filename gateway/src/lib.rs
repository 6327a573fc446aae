#![doc = include_str!("../README.md")]

mod asyncapi;
mod config;
mod dead_letters;
mod devices;
mod frames;
mod hub;
mod memberships;
mod metrics;
mod rates;
mod service;
mod socket;
mod state;
mod tail;

pub use asyncapi::asyncapi;
pub use config::{Config, GatewayConfig};
pub use service::{serve, start};
pub use socket::limit_socket;
