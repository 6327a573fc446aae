#![doc = include_str!("../README.md")]

mod clocks;
mod closed;
mod config;
mod disposal;
#[cfg(feature = "docker")]
mod docker;
mod error;
mod exec;
mod fresh;
mod install;
mod kafka;
mod kafka_jars;
mod listener;
mod log_file;
mod managed;
mod mariadb;
mod orphan;
mod pid_file;
mod port;
mod probe;
mod process;
mod redis;
mod redis_cluster;
mod run_dir;
mod service;
mod stack;
mod start;
mod stop;
mod template;
mod test_servers;
mod throw_away;
mod tools;

pub use closed::ClosedServers;
pub use config::{Memory, Ports, StackConfig};
pub use error::{StackError, Unready};
pub use exec::exec_with_fresh_servers;
pub use fresh::{FreshServers, ServerOptions};
pub use install::install;
pub use kafka::{KafkaNode, KafkaSpec, ProxiedListener};
pub use mariadb::MariaDbSpec;
pub use port::find_free as find_free_ports;
pub use redis::RedisSpec;
pub use service::{ReadyUrl, ServiceSpec};
pub use stack::{Endpoints, ProcessState, ProcessStatus, SERVER_NAMES, SERVICE_NAMES, Stack};
pub use start::Started;
pub use test_servers::TestServers;
