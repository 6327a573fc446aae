#![doc = include_str!("../README.md")]

mod asyncapi;
mod config;
mod contacts;
mod dead_letters;
mod devices;
mod dissolved_groups;
mod encoded;
mod expiring_map;
mod focus;
mod frames;
mod hub;
mod memberships;
mod metrics;
mod notices;
mod page;
mod presence;
#[cfg(test)]
#[expect(dead_code, reason = "tests here need less of it")]
#[path = "../tests/ws/proxy.rs"]
mod proxy;
mod rates;
mod reading;
#[cfg(test)]
#[expect(dead_code, reason = "tests here need less of it")]
#[path = "../../crates/unread-store/tests/it/server.rs"]
mod redis_server;
mod service;
mod shared_reads;
mod socket;
mod state;
mod tail;
mod typing;

pub use asyncapi::asyncapi;
pub use config::{Config, GatewayConfig};
pub use page::PageConfig;
pub use service::{serve, start};
pub use socket::limit_socket;
