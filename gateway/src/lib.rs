#![doc = include_str!("../README.md")]

mod config;
mod frames;
mod hub;
mod memberships;
mod service;
mod socket;
mod state;
mod tail;

pub use config::{Config, GatewayConfig};
pub use service::{serve, start};
